/* SPDX-License-Identifier: MIT
 *
 * What lasts as long as the process: modules that are never unloaded, and whether the variables in them can be read;
 * see permanent.h. Any thread. */
#include "permanent.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stint/memory.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "backend.h"
#include "caller.h"
#include "module.h"
#include "process.h"
#include "scope_state.h"
#include "thread.h"

/* --- Modules that are never unloaded. Found once, when this library is loaded: from the program on, by the names
 * that each module says it needs. What was preloaded, or has other names, is none of them, for want of knowledge. */

#define MAX_MODULES 256

/* Where they begin. Written at start. */
static uintptr_t bases[MAX_MODULES];
static size_t base_count;

static bool module_is_permanent(uintptr_t base)
{
    size_t i = 0;
    while (i < base_count && bases[i] != base)
        i++;
    return i < base_count;
}

/* The first of this name that the loader lists; NULL: none has it. */
static const struct link_map *find_needed(const char *name)
{
    const struct link_map *module = _r_debug.r_map->l_next;
    while (module != NULL && strcmp(basename(module->l_name), basename(name)) != 0)
        module = module->l_next;
    return module;
}

static void add_with_needed(const struct link_map *module)
{
    const char *strings = NULL;
    if (module == NULL || module_is_permanent(module->l_addr) || base_count == MAX_MODULES)
        return;
    bases[base_count++] = module->l_addr;
    for (const ElfW(Dyn) *entry = module->l_ld; entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == DT_STRTAB)
            strings = sti_module_pointed_to(module->l_addr, entry);
    }
    for (const ElfW(Dyn) *entry = module->l_ld; strings != NULL && entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == DT_NEEDED)
            add_with_needed(find_needed(strings + entry->d_un.d_val));
    }
}

void sti_permanent_start(void)
{
    add_with_needed(_r_debug.r_map);
}

bool sti_module_lasts(const struct dl_phdr_info *info)
{
    return module_is_permanent(info->dlpi_addr);
}

/* --- Modules whose blocks are the process's. Any thread.
 *
 * A module that is kept stays loaded, so that nothing else comes to lie at its addresses. */

/* The list only grows; release publishes an entry, acquire finds it whole. One that is kept no more is of size 0. */
static struct sti_caller_module kept[STI_KEPT_MODULES];
static atomic_size_t kept_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* for those that add */

static bool permanent_is_listed(const void *address)
{
    size_t count = atomic_load_explicit(&kept_count, memory_order_acquire);
    size_t i = 0;
    while (i < count && !sti_caller_in(&kept[i], address))
        i++;
    return i < count;
}

bool sti_caller_is_kept(const void *caller)
{
    return !sti_caller_is_clearly_not_system(caller) && permanent_is_listed(caller) &&
           sti_rule_is_on(STI_RULE_KEPT_MODULE);
}

size_t sti_kept_modules(struct sti_caller_module *modules)
{
    size_t count = atomic_load_explicit(&kept_count, memory_order_acquire);
    memcpy(modules, kept, count * sizeof *modules);
    return count;
}

/* By one thread at a time. */
static bool permanent_append(struct sti_caller_module module)
{
    size_t count = atomic_load_explicit(&kept_count, memory_order_relaxed);
    if (count == STI_KEPT_MODULES)
        return false;
    kept[count] = module;
    atomic_store_explicit(&kept_count, count + 1, memory_order_release);
    return true;
}

/* Its own constructor may have come before ours, and has had it kept already. */
void sti_module_keep_at_start(struct sti_caller_module module)
{
    if (!permanent_is_listed((const void *)module.begin))
        permanent_append(module);
}

/* Others may be asking, and find it either way. */
void sti_module_keep_no_more(struct sti_caller_module module)
{
    pthread_mutex_lock(&lock);
    size_t count = atomic_load_explicit(&kept_count, memory_order_relaxed);
    for (size_t i = 0; i < count; i++) {
        if (kept[i].begin == module.begin)
            __atomic_store_n(&kept[i].size, 0, __ATOMIC_RELAXED);
    }
    pthread_mutex_unlock(&lock);
}

/* Others may be asking: what they find between two changes only sends them the longer way. */
static void leave_no_short_way_to(const struct sti_caller_module *module)
{
    if (module->begin < sti_caller_system.between_end && sti_caller_system.between < module->begin + module->size)
        __atomic_store_n(&sti_caller_system.between_end, 0, __ATOMIC_RELAXED);
    if (module->begin < sti_caller_system.below)
        __atomic_store_n(&sti_caller_system.below, module->begin, __ATOMIC_RELAXED);
}

/* Have the module stay that lies there and has this path. False: it is going, or has gone. */
static bool module_pin(const char *path, const struct sti_caller_module *module)
{
    const struct link_map *pinned = dlopen(path, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
    const struct link_map *there = sti_module_of((const void *)module->begin);
    return pinned != NULL && there != NULL && pinned->l_ld == there->l_ld;
}

static int module_keep(const char *path, struct sti_caller_module module)
{
    int error = 0;
    if (!module_pin(path, &module))
        return ENOENT;
    pthread_mutex_lock(&lock);
    if (permanent_is_listed((const void *)module.begin))
        error = 0;
    else if (permanent_append(module))
        leave_no_short_way_to(&module);
    else
        error = ENOSPC;
    pthread_mutex_unlock(&lock);
    return error;
}

/* One of the name that is sought, which is not kept yet. The path is a copy, as the loader's own goes with its
 * module. */
struct sought {
    const char *name;
    bool is_there; /* some module has the name */
    struct sti_caller_module found;
    char path[PATH_MAX];
};

static int module_seek(struct dl_phdr_info *info, size_t size, void *argument)
{
    struct sought *sought = argument;
    size_t length = strlen(info->dlpi_name);
    (void)size;
    if (length >= sizeof sought->path || !sti_caller_is_named(info->dlpi_name, sought->name))
        return 0;
    sought->is_there = true;
    sought->found = sti_caller_module_at(info);
    if (permanent_is_listed((const void *)sought->found.begin))
        return 0;
    memcpy(sought->path, info->dlpi_name, length + 1);
    return 1;
}

static bool module_find_next(struct sought *sought)
{
    int found = sti_modules_visit(module_seek, sought);
    return found != 0;
}

/* As stint_mask and stint_unmask, which stand above this layer's base; but the end is no sample point: the next
 * allocation is, if an interrupt is due. */
static void begin_masked(void)
{
    if (sti_thread_metered != NULL)
        sti_thread_metered->scope->masks++;
}

static void end_masked(void)
{
    if (sti_thread_metered != NULL)
        sti_thread_metered->scope->masks--;
}

int stint_module_keep(const char *name)
{
    if (sti_process_is_partial())
        return ENOTSUP;
    int error = stint_module_protect(name);
    if (error != 0)
        return error;
    struct sought sought = { .name = name };
    begin_masked();
    while (error == 0 && module_find_next(&sought))
        error = module_keep(sought.path, sought.found);
    end_masked();
    return error == 0 && !sought.is_there ? ENOENT : error;
}

void sti_keep_openmp(const void *caller)
{
    const struct link_map *module = sti_module_of(caller);
    if (module == NULL || permanent_is_listed(caller) || !sti_caller_is_openmp(module->l_name))
        return;
    begin_masked();
    module_keep(module->l_name, sti_caller_module_of(caller));
    end_masked();
}

/* --- Reading what may be unreadable. Any thread. To ask for each page costs more than to read it, so nobody
 * asks until a page has been forbidden. A handshake (thread.h):
 *
 *   reader:   readers + 1 (seq_cst) ... load forbidden (seq_cst); unless that is set, read, readers - 1
 *   another:  forbidden = true (seq_cst) ... load readers (seq_cst), wait until it is 0; forbid the page
 *
 * release, and acquire where it is awaited: the reader has read. A signal's handler does not wait for the thread that
 * it runs on, nor anybody in part of a process, whose readers may have gone. */

static struct {
    atomic_bool forbidden;
    atomic_uint readers;
} pages[2]; /* by enum sti_readable */
static _Thread_local unsigned own_reads;

bool sti_readable_begin(enum sti_readable what)
{
    if (!STI_OVERRIDES) /* nobody is told of what is forbidden */
        return false;
    own_reads++;
    atomic_fetch_add_explicit(&pages[what].readers, 1, memory_order_seq_cst);
    if (__builtin_expect(!atomic_load_explicit(&pages[what].forbidden, memory_order_seq_cst), 1))
        return true;
    sti_readable_end(what);
    return false;
}

void sti_readable_end(enum sti_readable what)
{
    atomic_fetch_sub_explicit(&pages[what].readers, 1, memory_order_release);
    own_reads--;
}

static void page_forbid(enum sti_readable what)
{
    atomic_store_explicit(&pages[what].forbidden, true, memory_order_seq_cst);
    while (own_reads == 0 && !sti_process_is_partial() &&
           atomic_load_explicit(&pages[what].readers, memory_order_seq_cst) > 0)
        sched_yield();
}

/* Of this thread, as all have the same memory: the main thread has none any more when it has ended. */
long sti_readable_copy(void *to, uintptr_t from, size_t size)
{
    struct iovec here = { .iov_base = to, .iov_len = size };
    struct iovec there = { .iov_base = (void *)from, .iov_len = size };
    int saved_errno = errno;
    ssize_t copied = process_vm_readv(gettid(), &here, 1, &there, 1, 0);
    if (copied < 0 && errno == EFAULT)
        copied = 0;
    errno = saved_errno;
    return copied;
}

/* Before there is a task nobody asks for blocks, and mimalloc may not be ready to. */
void sti_readable_note(const void *address, int protection)
{
    if ((protection & PROT_READ) != 0)
        return;
    if (sti_module_of(address) != NULL)
        page_forbid(STI_READABLE_DATA);
    else if (sti_thread_first() != NULL && sti_backend_has_made(address))
        page_forbid(STI_READABLE_HEAPS);
}

/* Nothing but a system call, as the first may come before this library's start. */
int sti_real_protect(void *address, size_t length, int protection, int key)
{
    if (key == STI_NO_KEY)
        return (int)syscall(SYS_mprotect, address, length, protection);
    return (int)syscall(SYS_pkey_mprotect, address, length, protection, key);
}
