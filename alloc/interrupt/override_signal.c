/* SPDX-License-Identifier: MIT
 *
 * The functions of libc's that set the handler of a fault. A program's handler of SIGSEGV takes the place that it would
 * have if this library had none: behind ours, which hands on to it whatever is no stack's end (signals.h). Any
 * thread. */
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stint/api.h>

#include "alloc/base/module.h"
#include "fault.h"

STINT_API int sigaction(int number, const struct sigaction *action, struct sigaction *before);
STINT_API sighandler_t signal(int number, sighandler_t handler);
STINT_API sighandler_t ssignal(int number, sighandler_t handler);
STINT_API sighandler_t bsd_signal(int number, sighandler_t handler);
STINT_API sighandler_t sysv_signal(int number, sighandler_t handler);
STINT_API sighandler_t __sysv_signal(int number, sighandler_t handler);

int sigaction(int number, const struct sigaction *action, struct sigaction *before)
{
    STI_LIBC_FUNCTION(sigaction);
    if (number == SIGSEGV && sti_fault_action(action, before))
        return 0;
    return plain(number, action, before);
}

static sighandler_t set(int number, sighandler_t handler, int flags)
{
    struct sigaction action = { .sa_handler = handler, .sa_flags = flags };
    struct sigaction before;
    sigemptyset(&action.sa_mask);
    if (handler == SIG_ERR) {
        errno = EINVAL;
        return SIG_ERR;
    }
    return sigaction(number, &action, &before) == 0 ? before.sa_handler : SIG_ERR;
}

/* Of others than SIGSEGV siginterrupt has a say. */
sighandler_t signal(int number, sighandler_t handler)
{
    STI_LIBC_FUNCTION(signal);
    return number == SIGSEGV ? set(number, handler, SA_RESTART) : plain(number, handler);
}

sighandler_t ssignal(int number, sighandler_t handler)
{
    return signal(number, handler);
}

sighandler_t bsd_signal(int number, sighandler_t handler)
{
    return signal(number, handler);
}

sighandler_t __sysv_signal(int number, sighandler_t handler)
{
    STI_LIBC_FUNCTION(__sysv_signal);
    return number == SIGSEGV ? set(number, handler, (int)(SA_RESETHAND | SA_NODEFER)) : plain(number, handler);
}

sighandler_t sysv_signal(int number, sighandler_t handler)
{
    return __sysv_signal(number, handler);
}
