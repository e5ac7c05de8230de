/* SPDX-License-Identifier: MIT
 *
 * The processors that a pool may use; see processors.h. */
#include "processors.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "alloc/cgroup.h"
#include "alloc/process.h"

#define SMALLEST_MASK sizeof(cpu_set_t)
#define LARGEST_MASK ((size_t)64 << 10) /* half a million processors */

bool sti_processors_read(struct sti_processors *processors)
{
    for (size_t size = SMALLEST_MASK; size <= LARGEST_MASK; size *= 2) {
        cpu_set_t *mask = sti_process_calloc(1, size);
        if (mask != NULL && sched_getaffinity(0, size, mask) == 0) {
            *processors = (struct sti_processors){ mask, size, (unsigned)CPU_COUNT_S(size, mask) };
            return true;
        }
        int error = errno;
        sti_process_free(mask);
        if (mask == NULL || error != EINVAL) /* the kernel's own mask is larger */
            break;
    }
    *processors = (struct sti_processors){ .mask = NULL };
    return false;
}

void sti_processors_free(struct sti_processors *processors)
{
    sti_process_free(processors->mask);
}

void sti_processors_choose(const struct sti_processors *processors, unsigned i, cpu_set_t *only)
{
    size_t processor = 0;
    for (unsigned skip = i % processors->count;; processor++) {
        if (CPU_ISSET_S(processor, processors->size, processors->mask) && skip-- == 0)
            break;
    }
    CPU_ZERO_S(processors->size, only);
    CPU_SET_S(processor, processors->size, only);
}

/* Processors that the group's quota pays for, rounded up; 0: it has none. */
static unsigned quota_of(const struct sti_cgroup *group)
{
    char text[64];
    long long quota = 0;
    long long period = 0;
    if (group->unified) {
        /* "max 100000" where there is none. */
        if (!sti_cgroup_read(group, "cpu.max", text, sizeof text) || sscanf(text, "%lld %lld", &quota, &period) != 2)
            return 0;
    } else if (!sti_cgroup_read(group, "cpu.cfs_quota_us", text, sizeof text) || sscanf(text, "%lld", &quota) != 1 ||
               !sti_cgroup_read(group, "cpu.cfs_period_us", text, sizeof text) || sscanf(text, "%lld", &period) != 1) {
        return 0;
    }
    if (quota <= 0 || period <= 0)
        return 0;
    long long count = quota / period + (quota % period != 0);
    return count < (1 << 20) ? (unsigned)count : 1 << 20;
}

static unsigned least_quota(const char *root)
{
    struct sti_cgroup group;
    unsigned least = 0;
    if (!sti_cgroup_find(&group, root, "cpu"))
        return 0;
    do {
        unsigned quota = quota_of(&group);
        if (quota != 0 && (least == 0 || quota < least))
            least = quota;
    } while (sti_cgroup_ascend(&group));
    return least;
}

unsigned sti_processors_usable(const char *root)
{
    struct sti_processors allowed;
    unsigned count = 0;
    if (sti_processors_read(&allowed)) {
        count = allowed.count;
        sti_processors_free(&allowed);
    } else {
        long online = sysconf(_SC_NPROCESSORS_ONLN);
        count = online > 0 ? (unsigned)online : 1;
    }
    unsigned quota = least_quota(root);
    return quota != 0 && quota < count ? quota : count;
}
