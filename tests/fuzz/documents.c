/* SPDX-License-Identifier: MIT
 *
 * The files that stint-batch parses: a document of each kind, in a task with a budget. Whatever it is, the task ends,
 * within its limits, and leaves no record. The first byte is the kind. */
#include <stint/stint.h>

#include "../live/live.h"
#include "fuzz.h"
#include "parse.h"

#define MS UINT64_C(1000000)

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    parse_ready_libraries();
    parse_warm_up();
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    char *text = fuzz_text(data + 1, size - 1);
    parse_document document = {
        .path = "document", .kind = (parse_kind)(data[0] % PARSE_BAD), .text = text, .size = size - 1
    };
    stint_options options = parse_options(document.kind);
    stint_outcome outcome;
    options.budget = (stint_budget){ .allocation = (size_t)256 << 20, .memory = (size_t)32 << 20, .run_ns = 200 * MS };
    fuzz_require(stint_run(parse_document_run, &document, &options, &outcome) == 0);
    fuzz_require(memchr(document.detail, '\0', sizeof document.detail) != NULL);
    switch (outcome.reason) {
    case STINT_REASON_NONE:
        fuzz_require(outcome.status == STINT_OK && outcome.error == 0);
        break;
    case STINT_REASON_FAILED:
        fuzz_require(outcome.status == STINT_ERROR && outcome.error != 0);
        fuzz_require(document.detail[0] != '\0');
        break;
    case STINT_REASON_ALLOCATION_LIMIT:
    case STINT_REASON_MEMORY_LIMIT:
    case STINT_REASON_DEADLINE:
    case STINT_REASON_STACK:
        fuzz_require(outcome.status == STINT_ERROR);
        break;
    default:
        fuzz_never("an outcome that no document can have");
    }
    fuzz_require(outcome.usage.allocated <= options.budget.allocation + ((size_t)32 << 20));
    free(text);
    return 0;
}
