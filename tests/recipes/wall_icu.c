/* SPDX-License-Identifier: MIT
 *
 * The recipe for ICU behind a wall, as docs/wall.md gives it: its caches of converters and of locale data, which an
 * interrupt in place would leave half filled, are filled in setup, and each child begins with them. */
#include "walled.h"

#include <unicode/uclean.h>
#include <unicode/ucnv.h>
#include <unicode/ucol.h>

#define RUNS 1000

/* A converter that was opened once stays in ICU's caches when it is closed. */
static int warm_up(void *unused)
{
    static const char *const encodings[] = { "UTF-8", "windows-1252", "Shift_JIS", "GB18030", "KOI8-R" };
    static const char *const locales[] = { "en", "de", "ja", "ru" };
    UErrorCode status = U_ZERO_ERROR;
    (void)unused;
    u_init(&status);
    for (size_t i = 0; i < sizeof encodings / sizeof *encodings; i++)
        ucnv_close(ucnv_open(encodings[i], &status));
    for (size_t i = 0; i < sizeof locales / sizeof *locales; i++)
        ucol_close(ucol_open(locales[i], &status));
    return U_SUCCESS(status) ? 0 : EIO;
}

struct document {
    char encoding[32];
    char bytes[];
};

static int to_utf8(const void *input, size_t size, stint_reply *reply)
{
    const struct document *document = input;
    int32_t length = (int32_t)(size - sizeof *document);
    UErrorCode status = U_ZERO_ERROR;
    char *text = malloc((size_t)length * 4 + 1);
    if (text == NULL)
        return ENOMEM;
    int32_t made = ucnv_convert("UTF-8", document->encoding, text, length * 4 + 1, document->bytes, length, &status);
    if (U_FAILURE(status))
        return stint_fail(EILSEQ, u_errorName(status), strlen(u_errorName(status)) + 1);
    return stint_reply_write(reply, text, (size_t)made);
}

static int make_text_wall(stint_wall **wall)
{
    stint_wall_options options = STINT_WALL_OPTIONS_INIT;
    options.name = "text";
    options.setup = warm_up;
    options.tasks_per_child = 1; /* its caches are written to: each task has them as setup has left them */
    options.spare = 2;
    return stint_wall_create(&options, wall);
}

/* --- What it is tried with. --- */

static stint_outcome convert(struct fixture fixture, const char *encoding, const char *text, size_t allocation)
{
    struct document *document = stint_calloc(1, sizeof *document + strlen(text));
    stint_options options = STINT_OPTIONS_INIT;
    strcpy(document->encoding, encoding);
    memcpy(document->bytes, text, strlen(text));
    options.budget = (stint_budget){ .allocation = allocation, .run_ns = TEN_SECONDS };
    stint_outcome outcome = take_in_time(
        submit_walled(fixture.pool, fixture.wall, to_utf8, document, sizeof *document + strlen(text), &options));
    stint_free(document);
    return outcome;
}

TEST(text_comes_back_in_utf_8)
{
    struct fixture fixture = begin(make_text_wall);
    assert_replied(convert(fixture, "windows-1252", "caf\xe9 \x80", 0), "caf\xc3\xa9 \xe2\x82\xac");
    assert_replied(convert(fixture, "Shift_JIS", "\x93\xfa\x96{", 0), "\xe6\x97\xa5\xe6\x9c\xac");
    assert_replied(convert(fixture, "KOI8-R", "\xd4\xc5\xd3\xd4", 0), "\xd1\x82\xd0\xb5\xd1\x81\xd1\x82");
    assert_int_equal(convert(fixture, "no such encoding", "x", 0).error, EILSEQ);
    end(fixture);
}

/* In its caches too: half-done work there is gone with the child. */
TEST(a_task_that_is_stopped_anywhere_spoils_none_that_follow)
{
    struct fixture fixture = begin(make_text_wall);
    stint_outcome whole = convert(fixture, "GB18030", "\xd6\xd0\xce\xc4", 0);
    size_t most = (size_t)whole.usage.allocated;
    uint64_t random = 42;
    assert_replied(whole, "\xe4\xb8\xad\xe6\x96\x87");
    for (int i = 0; i < RUNS; i++) {
        stint_outcome outcome = convert(fixture, "GB18030", "\xd6\xd0\xce\xc4", 1 + random_below(&random, most - 1));
        assert_ended(&outcome, STINT_ERROR, STINT_REASON_ALLOCATION_LIMIT);
        if (i % 100 == 0)
            assert_replied(convert(fixture, "GB18030", "\xd6\xd0\xce\xc4", 0), "\xe4\xb8\xad\xe6\x96\x87");
    }
    end(fixture);
}

TESTS_NEED(lack_of_filters)

TEST_MAIN()
