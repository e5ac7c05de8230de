/* SPDX-License-Identifier: MIT
 *
 * The end of a worker's stack; see stack.h. */
#include "stack.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "alloc/platform/machine.h"
#include "alloc/platform/permanent.h"
#include "alloc/platform/thread.h"
#include "safe.h"

#define MARGIN ((uintptr_t)16 << 10)

/* All 0: the thread is no worker, or its stack could not be found. */
static _Thread_local struct {
    uintptr_t guard;  /* the lower ends of the guard, */
    uintptr_t yellow; /* of the yellow zone, */
    uintptr_t low;    /* and of what tasks may use; */
    uintptr_t high;   /* the upper end */
    bool is_open;     /* the yellow zone may be used */
    void *alternate;  /* the mapping of the alternate stack; NULL: the thread had one */
    size_t alternate_size;
} own;

static uintptr_t round_down(uintptr_t address)
{
    return address & ~(sti_page_size() - 1);
}

static bool protect_zone(int access)
{
    return sti_real_protect((void *)own.yellow, STI_STACK_YELLOW, access, STI_NO_KEY) == 0;
}

/* --- The fault. In its handler. --- */

/* What was there when the handler was set, the newest last: a program may have set another one before its next pool.
 * release, acquire: an action is read whole. */
#define KEPT_ACTIONS 16
static struct sigaction actions[KEPT_ACTIONS];
static atomic_uint claimed_actions;
static atomic_uint newest_action;

/* False: the task goes on only if that is not the guard, and otherwise not at all. */
static bool take_fault(uintptr_t address, ucontext_t *context)
{
    const struct sti_registers stopped = sti_registers_of(context);
    bool is_last = address < own.yellow;
    if (!own.is_open && !protect_zone(PROT_READ | PROT_WRITE))
        return false;
    own.is_open = true;
    if (sti_thread_metered != NULL)
        sti_hooks.at_stack_end(sti_thread_metered, &stopped, is_last, &context->uc_sigmask);
    return !is_last;
}

static bool is_of_stack(const siginfo_t *info, const ucontext_t *context)
{
    uintptr_t address = (uintptr_t)info->si_addr;
    return info->si_code > 0 && info->si_code != SI_KERNEL && address >= own.guard && address < own.low &&
           sti_registers_of(context).sp < own.low + STI_STACK_YELLOW;
}

/* A fault comes again when the handler has returned; a signal that somebody has sent does not. */
static void be_without_handler(int number, const siginfo_t *info, bool is_ignored)
{
    const struct sigaction action = { .sa_handler = SIG_DFL };
    if (info->si_code <= 0 && is_ignored)
        return;
    sigaction(number, &action, NULL);
    if (info->si_code <= 0)
        syscall(SYS_tgkill, getpid(), gettid(), number);
}

static void stack_on_fault(int number, siginfo_t *info, void *interrupted)
{
    ucontext_t *context = interrupted;
    int saved_errno = errno;
    bool is_taken = is_of_stack(info, context) && take_fault((uintptr_t)info->si_addr, context);
    errno = saved_errno;
    if (is_taken)
        return;
    const struct sigaction *previous =
        &actions[atomic_load_explicit(&newest_action, memory_order_acquire) % KEPT_ACTIONS];
    if ((previous->sa_flags & SA_SIGINFO) != 0)
        previous->sa_sigaction(number, info, context);
    else if (previous->sa_handler == SIG_DFL || previous->sa_handler == SIG_IGN)
        be_without_handler(number, info, previous->sa_handler == SIG_IGN);
    else
        previous->sa_handler(number);
}

/* With the mask and flags of the one before, which may be called. */
static void stack_handler_install(void)
{
    struct sigaction now;
    sti_verdict_prepare();
    if (sigaction(SIGSEGV, NULL, &now) != 0 || ((now.sa_flags & SA_SIGINFO) != 0 && now.sa_sigaction == stack_on_fault))
        return;
    unsigned next = atomic_fetch_add_explicit(&claimed_actions, 1, memory_order_relaxed) + 1;
    actions[next % KEPT_ACTIONS] = now;
    atomic_store_explicit(&newest_action, next, memory_order_release);
    now.sa_sigaction = stack_on_fault;
    now.sa_flags = (now.sa_flags & (int)(SA_NODEFER | SA_RESTART)) | SA_SIGINFO | SA_ONSTACK;
    sigaction(SIGSEGV, &now, NULL);
}

/* --- From the start of a worker to its end. --- */

int sti_stack_set(pthread_attr_t *attributes, size_t size)
{
    stack_handler_install();
    int error = size == 0 ? pthread_attr_getstacksize(attributes, &size) : 0;
    if (error == 0)
        error = pthread_attr_setguardsize(attributes, STI_STACK_GUARD);
    return error != 0
               ? error
               : pthread_attr_setstacksize(attributes, round_down(size + sti_page_size() - 1) + STI_STACK_YELLOW);
}

/* One that the program has set up is used. */
static bool have_alternate(void)
{
    stack_t stack;
    if (sigaltstack(NULL, &stack) != 0)
        return false;
    if ((stack.ss_flags & SS_DISABLE) == 0)
        return true;
    size_t size = round_down(STI_STACK_ALTERNATE + getauxval(AT_MINSIGSTKSZ) + 2 * sti_page_size());
    char *mapped = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (mapped == MAP_FAILED)
        return false;
    own.alternate = mapped;
    own.alternate_size = size;
    stack = (stack_t){ .ss_sp = mapped + sti_page_size(), .ss_size = size - sti_page_size() };
    return sti_real_protect(mapped, sti_page_size(), PROT_NONE, STI_NO_KEY) == 0 && sigaltstack(&stack, NULL) == 0;
}

static void drop_alternate(void)
{
    stack_t stack;
    if (own.alternate == NULL)
        return;
    if (sigaltstack(NULL, &stack) == 0 && stack.ss_sp == (char *)own.alternate + sti_page_size()) {
        stack.ss_flags = SS_DISABLE;
        sigaltstack(&stack, NULL);
    }
    munmap(own.alternate, own.alternate_size);
}

static bool stack_find(void)
{
    pthread_attr_t attributes;
    void *lowest;
    size_t size;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0)
        return false;
    bool found = pthread_attr_getstack(&attributes, &lowest, &size) == 0;
    pthread_attr_destroy(&attributes);
    if (!found)
        return false;
    own.yellow = round_down((uintptr_t)lowest + sti_page_size() - 1);
    own.guard = own.yellow - STI_STACK_GUARD;
    own.low = own.yellow + STI_STACK_YELLOW;
    own.high = (uintptr_t)lowest + size;
    return true;
}

void sti_stack_begin(void)
{
    if (stack_find() && have_alternate() && protect_zone(PROT_NONE))
        return;
    drop_alternate();
    memset(&own, 0, sizeof own);
}

void sti_stack_end(void)
{
    if (own.high == 0)
        return;
    protect_zone(PROT_READ | PROT_WRITE);
    drop_alternate();
    memset(&own, 0, sizeof own);
}

/* --- From task to task. --- */

static bool is_above(uintptr_t end)
{
    return (uintptr_t)__builtin_frame_address(0) > end + MARGIN;
}

static __attribute__((noinline)) void close_zone(void)
{
    int saved_errno = errno;
    madvise((void *)own.yellow, STI_STACK_YELLOW, MADV_DONTNEED);
    own.is_open = !protect_zone(PROT_NONE);
    errno = saved_errno;
}

void sti_stack_settle(void)
{
    if (__builtin_expect(own.is_open, 0) && is_above(own.low))
        close_zone();
}

bool sti_stack_is_nearly_exhausted(void)
{
    return own.is_open && (uintptr_t)__builtin_frame_address(0) - own.yellow < STI_STACK_YELLOW / 2;
}

void sti_stack_give_back(void)
{
    uintptr_t end = round_down((uintptr_t)__builtin_frame_address(0) - MARGIN);
    if (end > own.low && end < own.high)
        madvise((void *)own.low, end - own.low, MADV_DONTNEED);
}

uintptr_t sti_stack_lowest(void)
{
    return own.is_open ? own.yellow : own.low;
}

uintptr_t sti_stack_highest(void)
{
    return own.high;
}
