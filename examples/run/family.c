/* SPDX-License-Identifier: MIT
 *
 * A process and all that it has started; see family.h. A process that is started while the list is read may be missed;
 * whoever asks again sees it. */
#include "family.h"

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define NS_PER_SECOND UINT64_C(1000000000)

typedef void visit_fn(pid_t pid, void *arg);

static void visit_below(pid_t pid, visit_fn *visit, void *arg);

static void visit_children_of(const char *path, visit_fn *visit, void *arg)
{
    FILE *file = fopen(path, "re");
    int child;
    if (file == NULL)
        return;
    while (fscanf(file, "%d", &child) == 1) {
        visit(child, arg);
        visit_below(child, visit, arg);
    }
    fclose(file);
}

/* Any of its threads may have started some. */
static void visit_below(pid_t pid, visit_fn *visit, void *arg)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, (int)pid);
    visit_children_of(path, visit, arg);
}

/* The fields of /proc/PID/stat behind the name, which may have spaces and brackets in it. */
static bool read_stat(pid_t pid, uint64_t *cpu_ticks, unsigned *threads)
{
    char path[64];
    char line[1024];
    unsigned long long own_user, own_system, children_user, children_system;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return false;
    size_t length = fread(line, 1, sizeof line - 1, file);
    fclose(file);
    line[length] = '\0';
    const char *rest = line;
    for (const char *at = line; *at != '\0'; at++)
        rest = *at == ')' ? at + 1 : rest;
    if (sscanf(rest, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %llu %llu %*d %*d %u", &own_user,
               &own_system, &children_user, &children_system, threads) != 5)
        return false;
    *cpu_ticks = own_user + own_system + children_user + children_system;
    return true;
}

/* What is its alone: pages of files are shared by all that map them. */
static uint64_t read_resident(pid_t pid)
{
    char path[64];
    unsigned long long resident = 0;
    unsigned long long shared = 0;
    snprintf(path, sizeof path, "/proc/%d/statm", (int)pid);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return 0;
    if (fscanf(file, "%*u %llu %llu", &resident, &shared) != 2 || shared > resident)
        resident = shared = 0;
    fclose(file);
    return (resident - shared) * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void measure_one(pid_t pid, void *arg)
{
    struct family *family = arg;
    uint64_t ticks;
    unsigned threads;
    if (!read_stat(pid, &ticks, &threads))
        return;
    family->threads += threads;
    family->cpu_ns += ticks * (NS_PER_SECOND / (uint64_t)sysconf(_SC_CLK_TCK));
    family->resident += read_resident(pid);
}

struct family family_measure(void)
{
    struct family family = { 0 };
    visit_below(getpid(), measure_one, &family);
    return family;
}

static void signal_one(pid_t pid, void *number)
{
    kill(pid, *(const int *)number);
}

void family_signal(int number)
{
    visit_below(getpid(), signal_one, &number);
}
