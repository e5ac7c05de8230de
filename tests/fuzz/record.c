/* SPDX-License-Identifier: MIT
 *
 * What came of a job, as a worker has sent it: whatever is read can be written, and says the same when it is read
 * again. */
#include "record.h"

#include "fuzz.h"

static bool is_same_text(const char *one, const char *other)
{
    return one == NULL || other == NULL ? one == other : strcmp(one, other) == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct record record;
    struct record again;
    char *text = fuzz_text(data, size);
    bool good = record_read(&record, text, size);
    free(text);
    if (!good)
        return 0;
    char *written = record_write(&record);
    fuzz_require(written != NULL);
    for (const char *c = written; *c != '\0'; c++)
        fuzz_require(*c >= ' ' && *c <= 0x7f);
    fuzz_require(record_read(&again, written, strlen(written)));
    free(written);
    fuzz_require(record.outcome.status == again.outcome.status);
    fuzz_require(record.outcome.reason == again.outcome.reason);
    fuzz_require(record.items == again.items && record.deliveries == again.deliveries);
    fuzz_require(is_same_text(record.detail, again.detail));
    fuzz_require(is_same_text(record.why, again.why));
    fuzz_require(is_same_text(record.worker, again.worker));
    record_free(&record);
    record_free(&again);
    return 0;
}
