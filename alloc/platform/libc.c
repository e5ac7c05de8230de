/* SPDX-License-Identifier: MIT
 *
 * What libc lacks, made of what it has; see libc.h. Any thread. */
#include "libc.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined __GLIBC__

/* dladdr alone would name the nearest one below it. */
const char *sti_libc_symbol(const void *address)
{
    Dl_info info;
    void *found = NULL;
    if (dladdr1(address, &info, &found, RTLD_DL_SYMENT) == 0 || found == NULL)
        return NULL;
    const ElfW(Sym) *symbol = found;
    return (uintptr_t)address - (uintptr_t)info.dli_saddr < symbol->st_size ? info.dli_sname : NULL;
}

/* A link map is its object's handle, too. */
bool sti_libc_folder(const void *address, char *folder)
{
    Dl_info unused;
    struct link_map *module;
    return dladdr1(address, &unused, (void **)&module, RTLD_DL_LINKMAP) != 0 && module != NULL &&
           dlinfo(module, RTLD_DI_ORIGIN, folder) == 0;
}

#else

/* --- Modules. Entries are never freed, and are added under the lock; release publishes one, acquire finds it whole. A
 * count of the loader's says whether anything has been loaded; of the first module it is told without its lock. --- */

struct known {
    struct link_map map;
    struct dl_find_object object;
};

struct r_debug _r_debug = { .r_ldbase = (ElfW(Addr)) - 1 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct link_map *last; /* under the lock */
static atomic_ullong seen;    /* of what has ever been loaded; relaxed: entries are published by themselves */

static struct link_map *first_known(void)
{
    return __atomic_load_n(&_r_debug.r_map, __ATOMIC_ACQUIRE);
}

static struct link_map *next_known(const struct link_map *map)
{
    return __atomic_load_n(&map->l_next, __ATOMIC_ACQUIRE);
}

int _dl_find_object(void *address, struct dl_find_object *found)
{
    for (struct link_map *map = first_known(); map != NULL; map = next_known(map)) {
        const struct dl_find_object *object = &((struct known *)map)->object;
        if (address >= object->dlfo_map_start && address < object->dlfo_map_end) {
            *found = *object;
            return 0;
        }
    }
    return -1;
}

static void describe(const struct dl_phdr_info *info, struct known *known)
{
    uintptr_t begin = UINTPTR_MAX;
    uintptr_t end = 0;
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        uintptr_t first = info->dlpi_addr + segment->p_vaddr;
        if (segment->p_type == PT_DYNAMIC)
            known->map.l_ld = (ElfW(Dyn) *)first;
        else if (segment->p_type == PT_GNU_EH_FRAME)
            known->object.dlfo_eh_frame = (void *)first;
        if (segment->p_type != PT_LOAD)
            continue;
        begin = first < begin ? first : begin;
        end = first + segment->p_memsz > end ? first + segment->p_memsz : end;
    }
    known->map.l_addr = info->dlpi_addr;
    known->map.l_name = (char *)(uintptr_t)info->dlpi_name;
    known->object.dlfo_map_start = (void *)begin;
    known->object.dlfo_map_end = (void *)end;
    known->object.dlfo_link_map = &known->map;
}

struct visiting {
    sti_libc_visit_fn *visit;
    void *arg;
    bool others; /* than the program */
};

static int visit_named(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct visiting *visiting = arg;
    struct dl_phdr_info named = *info;
    if (!visiting->others)
        named.dlpi_name = "";
    visiting->others = true;
    return visiting->visit(&named, size, visiting->arg);
}

int sti_libc_visit(sti_libc_visit_fn *visit, void *arg)
{
    struct visiting visiting = { .visit = visit, .arg = arg };
    return dl_iterate_phdr(visit_named, &visiting);
}

static int add_unknown(struct dl_phdr_info *info, size_t size, void *failed)
{
    struct dl_find_object found;
    struct known *known = calloc(1, sizeof *known);
    (void)size;
    if (known == NULL) {
        *(bool *)failed = true;
        return 1;
    }
    describe(info, known);
    if (_dl_find_object(known->object.dlfo_map_start, &found) == 0) {
        free(known);
        return 0;
    }
    known->map.l_prev = last;
    __atomic_store_n(last != NULL ? &last->l_next : &_r_debug.r_map, &known->map, __ATOMIC_RELEASE);
    last = &known->map;
    return 0;
}

static int read_count(struct dl_phdr_info *info, size_t size, void *count)
{
    (void)size;
    *(unsigned long long *)count = info->dlpi_adds;
    return 1;
}

/* The count is read before the list: what is loaded meanwhile is found at the next look, too. */
void sti_libc_look(void)
{
    unsigned long long count = 0;
    bool failed = false;
    dl_iterate_phdr(read_count, &count);
    if (first_known() != NULL && atomic_load_explicit(&seen, memory_order_relaxed) == count)
        return;
    pthread_mutex_lock(&lock);
    sti_libc_visit(add_unknown, &failed);
    if (!failed)
        atomic_store_explicit(&seen, count, memory_order_relaxed);
    pthread_mutex_unlock(&lock);
}

/* musl's dladdr names only what the address lies in. */
const char *sti_libc_symbol(const void *address)
{
    Dl_info info;
    return dladdr(address, &info) != 0 ? info.dli_sname : NULL;
}

bool sti_libc_folder(const void *address, char *folder)
{
    Dl_info info;
    if (dladdr(address, &info) == 0 || realpath(info.dli_fname, folder) == NULL)
        return false;
    char *slash = strrchr(folder, '/');
    if (slash != NULL)
        *slash = '\0';
    return slash != NULL;
}

/* --- Clocks. --- */

#define SECOND 1000000000L

/* The same time by the clock that musl's waits take. */
static struct timespec by_real_time(clockid_t clock, const struct timespec *until)
{
    struct timespec now;
    struct timespec real;
    clock_gettime(clock, &now);
    clock_gettime(CLOCK_REALTIME, &real);
    struct timespec time = { .tv_sec = until->tv_sec - now.tv_sec + real.tv_sec,
                             .tv_nsec = until->tv_nsec - now.tv_nsec + real.tv_nsec };
    for (; time.tv_nsec < 0; time.tv_nsec += SECOND)
        time.tv_sec--;
    for (; time.tv_nsec >= SECOND; time.tv_nsec -= SECOND)
        time.tv_sec++;
    return time;
}

int sem_clockwait(sem_t *semaphore, clockid_t clock, const struct timespec *until)
{
    const struct timespec time = by_real_time(clock, until);
    return sem_timedwait(semaphore, &time);
}

int pthread_mutex_clocklock(pthread_mutex_t *mutex, clockid_t clock, const struct timespec *until)
{
    const struct timespec time = by_real_time(clock, until);
    return pthread_mutex_timedlock(mutex, &time);
}

int pthread_rwlock_clockwrlock(pthread_rwlock_t *rwlock, clockid_t clock, const struct timespec *until)
{
    const struct timespec time = by_real_time(clock, until);
    return pthread_rwlock_timedwrlock(rwlock, &time);
}

/* --- Threads and processes. --- */

int pthread_attr_setaffinity_np(pthread_attr_t *attributes, size_t size, const cpu_set_t *set)
{
    (void)attributes;
    (void)size;
    (void)set;
    return ENOTSUP;
}

int __cxa_thread_atexit_impl(void (*function)(void *), void *argument, void *module)
{
    (void)function;
    (void)argument;
    (void)module;
    return ENOTSUP;
}

int posix_spawn_file_actions_addclosefrom_np(posix_spawn_file_actions_t *actions, int from)
{
    (void)actions;
    (void)from;
    return ENOTSUP;
}

static void (*exit_function)(int status, void *argument);
static void *exit_argument;

static void call_at_exit(void)
{
    exit_function(EXIT_FAILURE, exit_argument);
}

int on_exit(void (*function)(int status, void *argument), void *argument)
{
    exit_function = function;
    exit_argument = argument;
    return atexit(call_at_exit);
}

/* --- Words. --- */

void backtrace_symbols_fd(void *const *frames, int count, int fd)
{
    for (int i = 0; i < count; i++)
        dprintf(fd, "%p\n", frames[i]);
}

const char *sigabbrev_np(int number)
{
    static const char names[][8] = {
        [SIGHUP] = "HUP",       [SIGINT] = "INT",     [SIGQUIT] = "QUIT", [SIGILL] = "ILL",   [SIGTRAP] = "TRAP",
        [SIGABRT] = "ABRT",     [SIGBUS] = "BUS",     [SIGFPE] = "FPE",   [SIGKILL] = "KILL", [SIGUSR1] = "USR1",
        [SIGSEGV] = "SEGV",     [SIGUSR2] = "USR2",   [SIGPIPE] = "PIPE", [SIGALRM] = "ALRM", [SIGTERM] = "TERM",
        [SIGCHLD] = "CHLD",     [SIGCONT] = "CONT",   [SIGSTOP] = "STOP", [SIGTSTP] = "TSTP", [SIGTTIN] = "TTIN",
        [SIGTTOU] = "TTOU",     [SIGURG] = "URG",     [SIGXCPU] = "XCPU", [SIGXFSZ] = "XFSZ", [SIGVTALRM] = "VTALRM",
        [SIGPROF] = "PROF",     [SIGWINCH] = "WINCH", [SIGPOLL] = "POLL", [SIGPWR] = "PWR",   [SIGSYS] = "SYS",
        [SIGSTKFLT] = "STKFLT",
    };
    bool has_name = number > 0 && (size_t)number < sizeof names / sizeof *names && names[number][0] != '\0';
    return has_name ? names[number] : NULL;
}

const char *strerrordesc_np(int error)
{
    return strerror(error);
}

#endif
