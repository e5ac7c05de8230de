/* SPDX-License-Identifier: MIT
 *
 * What an outcome means in HTTP; see verdict.h. Where there is no status for it, it is what Google's APIs map their
 * codes to: 499 for what was cancelled, as nginx has it, 504 for a deadline, 429 for what a tenant has used up. */
#include "verdict.h"
#include "json.h"

#include <errno.h>
#include <inttypes.h>

#define NS_PER_MS 1000000

enum {
    HTTP_OK = 200,
    HTTP_BAD_REQUEST = 400,
    HTTP_FORBIDDEN = 403,
    HTTP_UNPROCESSABLE = 422,
    HTTP_TOO_MANY = 429,
    HTTP_CANCELLED = 499,
    HTTP_INTERNAL = 500,
    HTTP_UNAVAILABLE = 503,
    HTTP_TIMEOUT = 504,
};

const char *verdict_kind_name(verdict_kind kind)
{
    static const char *const names[VERDICT_KINDS] = {
        [VERDICT_OK] = "ok",
        [VERDICT_FAILED] = "failed",
        [VERDICT_MEMORY] = "memory",
        [VERDICT_ALLOCATION] = "allocation",
        [VERDICT_DEADLINE] = "deadline",
        [VERDICT_CANCELLED] = "cancelled",
        [VERDICT_REFUSED] = "refused",
    };
    return names[kind];
}

static struct verdict of_failure(int error, const char *message)
{
    struct verdict verdict = { .status = HTTP_BAD_REQUEST, .kind = VERDICT_FAILED, .message = message };
    switch (error) {
    case EACCES:
        verdict.status = HTTP_FORBIDDEN;
        break;
    case EBUSY:
        verdict.status = HTTP_UNAVAILABLE;
        verdict.retry = true;
        break;
    case ECANCELED:
        verdict.status = HTTP_CANCELLED;
        verdict.kind = VERDICT_CANCELLED;
        break;
    case EBADMSG:
        break;
    default:
        verdict.status = HTTP_INTERNAL;
    }
    return verdict;
}

static struct verdict of_bytes(unsigned status, verdict_kind kind, uint64_t limit, uint64_t used)
{
    return (struct verdict){ .status = status, .kind = kind, .unit = "bytes", .limit = limit, .used = used };
}

static struct verdict of_deadline(const stint_budget *budget, const stint_usage *usage)
{
    uint64_t used = usage->queued_ns + usage->wall_ns;
    /* One that expired in the queue was not measured: it has waited for all of its time. */
    return (struct verdict){ .status = HTTP_TIMEOUT,
                             .kind = VERDICT_DEADLINE,
                             .unit = "ms",
                             .limit = budget->wall_ns / NS_PER_MS,
                             .used = (used > budget->wall_ns ? used : budget->wall_ns) / NS_PER_MS };
}

static struct verdict of_account(const stint_account_limits *account, const stint_usage *usage)
{
    struct verdict verdict = { .status = HTTP_TOO_MANY, .kind = VERDICT_REFUSED, .retry = true };
    if (account && (account->memory || account->allocation)) {
        verdict.unit = "bytes";
        verdict.limit = account->memory ? account->memory : account->allocation;
        verdict.used = account->memory ? usage->peak : usage->allocated;
    }
    return verdict;
}

static struct verdict of_reason(const stint_outcome *outcome, const stint_budget *budget, const char *message,
                                const stint_account_limits *account)
{
    const stint_usage *usage = &outcome->usage;
    switch (outcome->reason) {
    case STINT_REASON_NONE:
        return (struct verdict){ .status = HTTP_OK, .kind = VERDICT_OK };
    case STINT_REASON_FAILED:
        return of_failure(outcome->error, message);
    case STINT_REASON_ALLOCATION_LIMIT:
        return of_bytes(HTTP_UNPROCESSABLE, VERDICT_ALLOCATION, budget->allocation, usage->allocated);
    case STINT_REASON_MEMORY_LIMIT:
        return of_bytes(HTTP_UNPROCESSABLE, VERDICT_MEMORY, budget->memory, usage->peak);
    case STINT_REASON_DEADLINE:
    case STINT_REASON_EXPIRED:
    case STINT_REASON_CPU:
        return of_deadline(budget, usage);
    case STINT_REASON_ACCOUNT:
        return of_account(account, usage);
    case STINT_REASON_GLOBAL_MEMORY_LIMIT:
        return (struct verdict){ .status = HTTP_UNAVAILABLE,
                                 .kind = VERDICT_MEMORY,
                                 .unit = "bytes",
                                 .limit = stint_global_memory_limit(),
                                 .used = usage->peak,
                                 .retry = true };
    case STINT_REASON_TOKEN:
        return (struct verdict){ .status = HTTP_CANCELLED, .kind = VERDICT_CANCELLED };
    case STINT_REASON_SHUTDOWN:
        return (struct verdict){ .status = HTTP_UNAVAILABLE, .kind = VERDICT_CANCELLED, .retry = true };
    case STINT_REASON_STACK:
        return (struct verdict){ .status = HTTP_UNPROCESSABLE, .kind = VERDICT_FAILED };
    case STINT_REASON_KILLED:
        return (struct verdict){ .status = HTTP_UNAVAILABLE, .kind = VERDICT_FAILED, .retry = true };
    default:
        return (struct verdict){ .status = HTTP_INTERNAL, .kind = VERDICT_FAILED };
    }
}

struct verdict verdict_of(const stint_outcome *outcome, const stint_budget *budget, const char *message,
                          const stint_account_limits *account)
{
    struct verdict verdict = of_reason(outcome, budget, message, account);
    verdict.outcome = stint_status_name(outcome->status);
    verdict.reason = stint_reason_name(outcome->reason);
    return verdict;
}

struct verdict verdict_of_refusal(int error, size_t queue, const stint_account_limits *account)
{
    struct verdict verdict = {
        .status = HTTP_UNAVAILABLE, .kind = VERDICT_REFUSED, .outcome = "refused", .retry = true
    };
    switch (error) {
    case EDQUOT:
        verdict.status = HTTP_TOO_MANY;
        verdict.reason = "account";
        verdict.unit = "queries";
        verdict.limit = verdict.used = account ? account->waiting : 0;
        break;
    case EAGAIN:
        verdict.reason = "queue";
        verdict.unit = "queries";
        verdict.limit = verdict.used = queue;
        break;
    case ESHUTDOWN:
        verdict.reason = "shutdown";
        break;
    default:
        verdict.reason = "memory";
    }
    return verdict;
}

void verdict_print(FILE *file, const struct verdict *verdict)
{
    fprintf(file, "{\"outcome\":\"%s\",\"reason\":\"%s\"", verdict->outcome, verdict->reason);
    if (verdict->unit)
        fprintf(file, ",\"unit\":\"%s\",\"limit\":%" PRIu64 ",\"used\":%" PRIu64, verdict->unit, verdict->limit,
                verdict->used);
    if (verdict->message) {
        fputs(",\"message\":", file);
        json_print_string(file, verdict->message);
    }
    fputc('}', file);
}
