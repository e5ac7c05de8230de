/* SPDX-License-Identifier: MIT
 *
 * The bound of a thread's stack; see stack.h. Calling thread only. */
#include "stack.h"

#include <errno.h>
#include <gnu/libc-version.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "alloc/base/lasting.h"
#include "alloc/base/thread.h"
#include "at_return.h"
#include "fault.h"
#include "safe.h"

#define PAGE ((uintptr_t)4096) /* of x86-64 */
#define LARGEST_SHARE 4        /* of a stack, that its reserve may take */
#define WIDE ((size_t)4 << 20) /* a stack of so much has room for a guard in it */
#define RESERVE_MIN (3 * PAGE)
#define LANDING_IN_GUARD ((size_t)256 << 10)
#define STEPS 32 /* in which the reserve is opened at most */
#define MARGIN ((uintptr_t)16 << 10)
#define MAIN_MAX ((size_t)1 << 30)       /* a limit beyond this is none */
#define ALTERNATE_SIZE ((size_t)1 << 20) /* handlers of the program's run there, too */
#define PROBES_APART ((uintptr_t)64 << 10)
#define ALTERNATE_MIN ((size_t)16 << 10)

enum kind { UNBOUNDED, WORKERS, PTHREADS, MAIN };

/* limit is 0 where there is no bound. */
static _Thread_local struct {
    uintptr_t guard, pad;
    uintptr_t low; /* of the reserve; the landing may begin below */
    uintptr_t late, early;
    uintptr_t limit, high;
    uintptr_t open; /* usable from here on; limit: the reserve is closed */
    size_t step;
    enum kind kind;
    bool is_known, is_workers;
    bool has_kernels_guard; /* a worker's, until it was bounded */
    uintptr_t known;        /* this and the next: where the thread's stack is, if it has been asked for */
    size_t known_size;
    bool is_outdated;  /* the main one's: its limit has been lowered, so it cannot grow down to the reserve */
    rlim_t main_limit; /* when its stack was bounded */
    void *alternate;   /* the stack for signals, if it is ours */
    size_t alternate_size;
} own;

static size_t round_down(size_t size)
{
    return size & ~(PAGE - 1);
}

static bool set_access(uintptr_t from, uintptr_t to, int access)
{
    return from == to || sti_protect_plainly((void *)from, to - from, access, STI_NO_KEY) == 0;
}

/* --- Finding it. --- */

/* The parts of the reserve, whose upper end is limit. So much of the guard is the landing's, too. */
static void divide(size_t reserve, size_t of_guard)
{
    size_t quarter = reserve / 4 < PAGE ? PAGE : round_down(reserve / 4);
    own.low = own.limit - reserve;
    own.pad = own.low - of_guard;
    own.late = own.low + quarter;
    own.early = own.late + quarter;
    own.step = round_down(reserve / STEPS - 1) + PAGE;
    own.open = own.limit;
}

static size_t reserve_in(size_t stack)
{
    size_t share = round_down(stack / LARGEST_SHARE);
    return share < STI_STACK_RESERVE ? share : STI_STACK_RESERVE;
}

/* The kernel puts the program's name at the upper end of the first stack, with 8 bytes of zeros behind it. */
static uintptr_t end_of_main(void)
{
    const char *name = (const char *)getauxval(AT_EXECFN);
    return name != NULL ? round_down((uintptr_t)name + strlen(name) + 8 + PAGE) : 0;
}

static bool map_reserve_of_main(void)
{
    void *wanted = (void *)own.pad;
    size_t size = own.limit - own.pad;
    void *mapped =
        mmap(wanted, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (mapped == wanted)
        return true;
    if (mapped != MAP_FAILED)
        munmap(mapped, size);
    return false;
}

/* The stack has grown so far already. */
static bool take_reserve_of_main(void)
{
    (void)*(const volatile char *)own.low; /* makes it grow through all of it */
    own.guard = own.low;
    return set_access(own.low, own.limit, PROT_NONE);
}

static bool is_room_above(uintptr_t limit)
{
    return (uintptr_t)__builtin_frame_address(0) > limit + MARGIN;
}

/* False: the calling thread has another stack. */
static bool find_main(void)
{
    struct rlimit limit;
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    uintptr_t high = end_of_main();
    if (high <= here || getrlimit(RLIMIT_STACK, &limit) != 0)
        return false;
    if (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur > MAIN_MAX)
        return high - here < MAIN_MAX;
    uintptr_t lowest = high - round_down(limit.rlim_cur);
    if (here <= lowest)
        return false;
    size_t reserve = reserve_in(high - lowest);
    own.high = high;
    own.guard = lowest - STI_STACK_GUARD;
    own.limit = lowest + reserve;
    own.main_limit = limit.rlim_cur;
    if (!is_room_above(own.limit) || reserve < RESERVE_MIN)
        return true;
    divide(reserve, LANDING_IN_GUARD);
    own.kind = MAIN;
    if (map_reserve_of_main())
        return true;
    divide(reserve, 0);
    if (!map_reserve_of_main())
        own.kind = take_reserve_of_main() ? PTHREADS : UNBOUNDED;
    return true;
}

/* From glibc 2.42 on a thread's guard is the kernel's (MADV_GUARD_INSTALL), in pages that anybody might use otherwise:
 * no access that is given opens it, and who has the stack next expects it there. */
#define GUARD_INSTALL 102
#define GUARD_REMOVE 103

static bool set_kernels_guard(int advice)
{
    return madvise((void *)own.pad, own.limit - own.pad, advice) == 0;
}

static void bound_worker(uintptr_t lowest, size_t guard)
{
    if (guard < STI_STACK_GUARD + STI_STACK_RESERVE)
        return;
    own.guard = lowest - STI_STACK_RESERVE - STI_STACK_GUARD;
    own.limit = lowest;
    divide(STI_STACK_RESERVE, LANDING_IN_GUARD);
    bool is_kernels = strverscmp(gnu_get_libc_version(), "2.42") >= 0 && set_kernels_guard(GUARD_REMOVE);
    own.has_kernels_guard = is_kernels && set_access(own.pad, own.limit, PROT_NONE);
    if (own.has_kernels_guard || !is_kernels)
        own.kind = WORKERS;
    else
        set_kernels_guard(GUARD_INSTALL);
}

/* Whether it can be read, without a touch of it: a system call that does nothing says so. */
static bool is_readable(uintptr_t address)
{
    const int no_change = -1;
    return syscall(SYS_rt_sigprocmask, no_change, address, NULL, sizeof(uint64_t)) == 0 || errno != EFAULT;
}

/* A virtual machine may have a guard of its own there. */
static bool is_untouched(uintptr_t from, uintptr_t to)
{
    while (from < to && is_readable(from))
        from += PROBES_APART;
    return from >= to;
}

static void bound_pthread(uintptr_t lowest, size_t size)
{
    lowest = round_down(lowest + PAGE - 1);
    size_t guard = size >= WIDE ? STI_STACK_GUARD : 0;
    size_t reserve = reserve_in(size);
    own.guard = lowest;
    own.limit = lowest + guard + reserve;
    if (reserve < RESERVE_MIN)
        return;
    divide(reserve, guard == 0 ? 0 : LANDING_IN_GUARD);
    if (is_room_above(own.limit) && is_untouched(own.guard, own.limit) && set_access(own.guard, own.limit, PROT_NONE))
        own.kind = PTHREADS;
}

/* False: the caller is on another stack than the thread's. */
static bool is_on_known(void)
{
    return (uintptr_t)__builtin_frame_address(0) - own.known < own.known_size;
}

static void find_pthread(void)
{
    pthread_attr_t attributes;
    void *lowest;
    size_t size, guard;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0)
        return;
    bool found =
        pthread_attr_getstack(&attributes, &lowest, &size) == 0 && pthread_attr_getguardsize(&attributes, &guard) == 0;
    pthread_attr_destroy(&attributes);
    if (!found)
        return;
    own.known = (uintptr_t)lowest;
    own.known_size = size;
    if (!is_on_known())
        return;
    own.high = (uintptr_t)lowest + size;
    if (own.is_workers)
        bound_worker((uintptr_t)lowest, guard);
    else
        bound_pthread((uintptr_t)lowest, size);
}

/* --- The stack for its signals. One that the program has set up is used, if it is large enough. --- */

static bool make_alternate(void)
{
    size_t size = round_down(ALTERNATE_SIZE + getauxval(AT_MINSIGSTKSZ) + 2 * PAGE);
    char *mapped =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED)
        return false;
    const stack_t stack = { .ss_sp = mapped + PAGE, .ss_size = size - PAGE };
    if (sti_protect_plainly(mapped, PAGE, PROT_NONE, STI_NO_KEY) != 0 || sigaltstack(&stack, NULL) != 0) {
        munmap(mapped, size);
        return false;
    }
    own.alternate = mapped;
    own.alternate_size = size;
    return true;
}

static bool have_alternate(void)
{
    stack_t stack;
    if (sigaltstack(NULL, &stack) != 0)
        return false;
    if ((stack.ss_flags & SS_DISABLE) != 0)
        return make_alternate();
    return stack.ss_size >= ALTERNATE_MIN;
}

static void drop_alternate(void)
{
    stack_t stack;
    if (own.alternate == NULL)
        return;
    if (sigaltstack(NULL, &stack) == 0 && stack.ss_sp == (char *)own.alternate + PAGE) {
        stack.ss_flags = SS_DISABLE;
        sigaltstack(&stack, NULL);
    }
    munmap(own.alternate, own.alternate_size);
    own.alternate = NULL;
}

/* --- From scope to scope. --- */

void sti_stack_is_workers(void)
{
    own.is_workers = true;
}

static void have_no_bound(void)
{
    own.kind = UNBOUNDED;
    own.guard = own.limit = own.open = own.early = own.high = 0;
}

static void find(void)
{
    own.is_known = true;
    sti_verdict_prepare();
    if (!sti_fault_handler_install() || !have_alternate())
        return;
    if (own.is_workers || !find_main())
        find_pthread();
    if (own.kind == UNBOUNDED) {
        drop_alternate();
        have_no_bound();
    }
    /* A coroutine says nothing of the thread's stack: another scope may. */
    own.is_known = own.kind != UNBOUNDED || own.known_size == 0 || is_on_known();
}

/* Of the main thread, whose limit has changed: the next scope finds where it is. */
static void forget(void)
{
    munmap((void *)own.pad, own.limit - own.pad);
    have_no_bound();
    own.is_known = own.is_outdated = false;
}

/* A coroutine's, or a signal's, says nothing of how deep the thread's is in use. */
static bool is_on_it(uintptr_t frame)
{
    return frame >= own.guard && frame < own.high;
}

/* What was opened, as far as nobody stands there. False: some of it stays open. */
static bool close_again(void)
{
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    uintptr_t free = is_on_it(here) ? round_down(here - MARGIN) : 0;
    sti_at_return_forget(is_on_it(here) ? here : 0);
    uintptr_t end = free < own.limit ? free : own.limit;
    if (own.open < end) {
        madvise((void *)own.open, end - own.open, MADV_DONTNEED);
        if (set_access(own.open, end, PROT_NONE))
            own.open = end;
    }
    return own.open == own.limit;
}

bool sti_stack_settle(void)
{
    int saved_errno = errno;
    bool closed = own.open == own.limit || close_again();
    errno = saved_errno;
    return closed;
}

/* In the reserve none can begin: it is there to end those that have. */
static enum sti_thread_readiness begin_scopes(struct sti_thread *thread)
{
    int saved_errno = errno;
    if (thread->scope == NULL && own.is_outdated)
        forget();
    if (thread->scope == NULL && !own.is_known && (own.known_size == 0 || is_on_known()))
        find();
    errno = saved_errno;
    if (sti_stack_settle())
        return own.is_known ? STI_THREAD_READY : STI_THREAD_ASK_AGAIN;
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    return is_on_it(here) && here < own.limit ? STI_THREAD_UNFIT : STI_THREAD_ASK_AGAIN;
}

void sti_stack_start(void)
{
    sti_thread_when_scopes_begin(begin_scopes);
}

bool sti_stack_is_spent(void)
{
    return own.open < own.limit;
}

bool sti_stack_is_nearly_spent(void)
{
    return own.open < own.early;
}

void sti_stack_give_back(void)
{
    uintptr_t end = round_down((uintptr_t)__builtin_frame_address(0) - MARGIN);
    if ((own.kind == WORKERS || own.kind == PTHREADS) && end > own.limit && end < own.high)
        madvise((void *)own.limit, end - own.limit, MADV_DONTNEED);
}

void sti_stack_end(void)
{
    sti_at_return_forget(UINTPTR_MAX);
    if (own.kind == WORKERS)
        close_again();
    if (own.kind == PTHREADS || own.has_kernels_guard)
        set_access(own.has_kernels_guard ? own.pad : own.guard, own.limit, PROT_READ | PROT_WRITE);
    if (own.has_kernels_guard)
        set_kernels_guard(GUARD_INSTALL);
    if (own.kind != UNBOUNDED)
        drop_alternate();
    bool is_workers = own.is_workers;
    memset(&own, 0, sizeof own);
    own.is_workers = is_workers;
}

/* --- In the handler of a fault. --- */

#define FRAME_MAX ((uintptr_t)16 << 20)
#define BELOW_STACK_POINTER ((uintptr_t)64 << 10) /* what code may touch there, and more */

/* The stack pointer tells a thread that has come down to here from a stray pointer. */
static bool is_at_end(uintptr_t address, uintptr_t stack_pointer)
{
    return address >= own.guard && address < own.open && stack_pointer > own.guard - FRAME_MAX &&
           stack_pointer < own.open + BELOW_STACK_POINTER && stack_pointer - BELOW_STACK_POINTER <= address;
}

static bool open_from(uintptr_t from)
{
    if (own.kind == MAIN && !own.is_outdated)
        (void)*(const volatile char *)own.limit; /* may make it grow */
    if (!set_access(from, own.open, PROT_READ | PROT_WRITE))
        return false;
    own.open = from;
    sti_thread_begin_again();
    return true;
}

/* The main thread's limit may have been raised since: then its stack may grow through the reserve. */
static enum sti_stack_fault give_to_program(uintptr_t address)
{
    struct rlimit limit;
    if (own.kind == WORKERS)
        return STI_STACK_NOT_OURS;
    if (own.kind == PTHREADS)
        return open_from(own.guard) ? STI_STACK_RETURNED : STI_STACK_NOT_OURS;
    if (getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur != own.main_limit) {
        forget();
        sti_thread_begin_again();
        return STI_STACK_RETURNED;
    }
    return address >= own.low && open_from(own.low) ? STI_STACK_RETURNED : STI_STACK_NOT_OURS;
}

/* The main thread's limit may have been lowered: then the kernel lets its stack grow no farther, and nothing can be
 * done about that but to leave. */
static bool is_at_lowered_limit(uintptr_t address, uintptr_t stack_pointer)
{
    struct rlimit limit;
    if (own.kind != MAIN || address < own.open || address >= own.high ||
        address + BELOW_STACK_POINTER < stack_pointer || getrlimit(RLIMIT_STACK, &limit) != 0 ||
        limit.rlim_cur >= own.main_limit)
        return false;
    own.is_outdated = own.high - address > limit.rlim_cur - PAGE;
    return own.is_outdated;
}

enum sti_stack_fault sti_stack_take_fault(uintptr_t address, uintptr_t stack_pointer, bool in_scope)
{
    if (in_scope && is_at_lowered_limit(address, stack_pointer))
        return STI_STACK_SPENT;
    if (address == 0 && stack_pointer < own.open + MARGIN)
        address = (stack_pointer < own.open ? stack_pointer : own.open) - sizeof address;
    if (own.kind == UNBOUNDED || !is_at_end(address, stack_pointer))
        return STI_STACK_NOT_OURS;
    if (!in_scope)
        return give_to_program(address);
    uintptr_t from = round_down(address) - own.step;
    if (address >= own.early && open_from(from > own.early ? from : own.early))
        return STI_STACK_FIRST;
    if (address >= own.late && open_from(from > own.late ? from : own.late))
        return STI_STACK_SECOND;
    return own.open >= own.late ? STI_STACK_SPENT : STI_STACK_NOT_OURS;
}

/* A system call that says what is blocked says it there, or that it cannot be written. */
static bool is_writable(uintptr_t address)
{
    return syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, address, sizeof(uint64_t)) == 0;
}

bool sti_stack_has_room(uintptr_t stack_pointer, uintptr_t down_to, const stack_t *for_signals)
{
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    uintptr_t begin = (uintptr_t)for_signals->ss_sp;
    size_t size = for_signals->ss_size;
    if (down_to >= stack_pointer || here - begin > size || stack_pointer - begin <= size)
        return false;
    uintptr_t page = round_down(stack_pointer - 1);
    while (page > down_to && is_writable(page - sizeof(uint64_t)))
        page -= PAGE;
    return page <= down_to && is_writable(down_to);
}

uintptr_t sti_stack_lowest(void)
{
    return own.open;
}

uintptr_t sti_stack_middle(void)
{
    return own.limit + (own.high - own.limit) / 2;
}

uintptr_t sti_stack_highest(void)
{
    return own.high;
}

uintptr_t sti_stack_open_landing(void)
{
    return open_from(own.pad) ? own.late : 0;
}
