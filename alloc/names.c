/* SPDX-License-Identifier: MIT
 *
 * Statuses and reasons in words. Any thread. */
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
    }
    return "unknown";
}
