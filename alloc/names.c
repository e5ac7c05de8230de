/* SPDX-License-Identifier: MIT
 *
 * Statuses and reasons in words. Any thread. */
#include <stddef.h>
#include <stint/interrupt.h>
#include <stint/task.h>

const char *stint_status_name(stint_status status)
{
    switch (status) {
    case STINT_OK:
        return "ok";
    case STINT_ERROR:
        return "error";
    case STINT_CANCELLED:
        return "cancelled";
    }
    return "unknown";
}

const char *stint_reason_name(stint_reason reason)
{
    switch (reason) {
    case STINT_REASON_NONE:
        return "none";
    case STINT_REASON_FAILED:
        return "failed";
    case STINT_REASON_ALLOCATION_LIMIT:
        return "alloc-limit";
    case STINT_REASON_MEMORY_LIMIT:
        return "memory-limit";
    case STINT_REASON_DEADLINE:
        return "deadline";
    case STINT_REASON_TOKEN:
        return "token";
    case STINT_REASON_SHUTDOWN:
        return "shutdown";
    case STINT_REASON_GLOBAL_MEMORY_LIMIT:
        return "global-memory-limit";
    case STINT_REASON_ACCOUNT:
        return "account";
    case STINT_REASON_OUTER:
        return "outer";
    case STINT_REASON_TRACKER:
        return "tracker";
    case STINT_REASON_EXCEPTION:
        return "exception";
    case STINT_REASON_CPU:
        return "cpu";
    case STINT_REASON_EXPIRED:
        return "expired";
    }
    return "unknown";
}

const char *stint_deferral_name(stint_deferral deferral)
{
    static const char *const names[] = {
        [STINT_DEFERRAL_NONE] = "none",   [STINT_DEFERRAL_MASK] = "mask",   [STINT_DEFERRAL_LOCK] = "lock",
        [STINT_DEFERRAL_THROW] = "throw", [STINT_DEFERRAL_ONCE] = "once",   [STINT_DEFERRAL_STATIC] = "static",
        [STINT_DEFERRAL_CATCH] = "catch", [STINT_DEFERRAL_FRAME] = "frame",
    };
    return (size_t)deferral < sizeof names / sizeof *names ? names[deferral] : "unknown";
}
