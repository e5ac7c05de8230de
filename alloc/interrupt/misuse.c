/* SPDX-License-Identifier: MIT
 *
 * Misuse and debug mode; see misuse.h. Any thread. */
#include "misuse.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "alloc/base/thread.h"
#include "hold.h"
#include "left_frames.h"

#define LONGEST_LINE 256

bool sti_debug_is_on;

__attribute__((constructor(101))) static void ask_environment(void)
{
    const char *value = secure_getenv("STINT_DEBUG");
    sti_debug_is_on = value != NULL && strcmp(value, "") != 0 && strcmp(value, "0") != 0;
}

/* Whatever the task's limits are, and without a sample point in what libc does here. */
void sti_debug_say(const char *format, ...)
{
    if (!sti_debug_is_on)
        return;
    struct sti_thread *counted = sti_thread_counted;
    int saved_errno = errno;
    sti_thread_counted = NULL;
    char line[LONGEST_LINE];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof line - 1, format, arguments);
    va_end(arguments);
    size_t size = length < 0 ? 0 : (size_t)length < sizeof line - 1 ? (size_t)length : sizeof line - 2;
    line[size++] = '\n';
    (void)!write(STDERR_FILENO, line, size);
    sti_thread_counted = counted;
    errno = saved_errno;
}

static const char *name_of(const struct sti_scope *scope)
{
    const char *name = scope != NULL ? scope->request->options->name : NULL;
    return name != NULL ? name : scope != NULL ? "(without a name)" : "(none)";
}

void sti_misuse_note(const struct sti_scope *scope, const char *what)
{
    sti_debug_say("stint: task %s: %s", name_of(scope), what);
}

int sti_misuse_fail(struct sti_scope *scope, int code)
{
    if (scope->guards != NULL)
        sti_misuse_note(scope, "returned without popping a guard");
    if (scope->hooks != NULL)
        sti_misuse_note(scope, "returned without popping a hook");
    if (scope->keeps > 0)
        sti_misuse_note(scope, "returned without stint_keep_end");
    else if (scope->masks != scope->finished)
        sti_misuse_note(scope, "returned without stint_unmask");
    return code != 0 ? code : EINVAL;
}

int sti_misuse_fail_task(struct sti_scope *branch, int code)
{
    sti_forks_give_up(branch);
    return sti_misuse_fail(branch, code);
}

void sti_misuse_look_at_holds(struct sti_scope *scope)
{
    sti_hold_settle(scope);
    if (sti_hold_any(&scope->holds))
        sti_misuse_note(scope, "ends while it holds a lock");
}
