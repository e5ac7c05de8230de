/* SPDX-License-Identifier: MIT
 *
 * An allocation of libc for itself succeeds after the limit and the grace are spent, until a reserve is spent too:
 * libc makes some things once, at a first use, and remembers for good if that failed. */
#include "support.h"

#include <locale.h>
#include <stdio.h>
#include <wchar.h>

#define RESERVE (16 * MIB)

static void spend_everything(void)
{
    while (stint_malloc(1000) != NULL)
        ;
}

static int use_libc_for_the_first_time(void *arg, void **value)
{
    size_t *characters = arg;
    (void)value;
    spend_everything();
    locale_t locale = newlocale(LC_ALL_MASK, "C.UTF-8", (locale_t)0);
    if (locale == (locale_t)0)
        return ENOENT;
    locale_t before = uselocale(locale);
    wchar_t wide[8];
    *characters = mbstowcs(wide, "\xc3\xa4\xc3\xb6", 8);
    uselocale(before);
    freelocale(locale);
    return 0;
}

/* The first that looks: nothing of this has been made in this process. */
TEST(a_first_use_of_libc_s_under_a_spent_limit_spoils_nothing)
{
    stint_options options = STINT_OPTIONS_INIT;
    size_t characters = 0;
    options.on_interrupt = STINT_FAIL;
    options.budget.allocation = 1000;
    options.grace = 64;
    stint_outcome outcome;
    assert_int_equal(stint_run(use_libc_for_the_first_time, &characters, &options, &outcome), 0);
    assert_int_equal(outcome.reason, STINT_REASON_ALLOCATION_LIMIT);
    assert_int_equal(characters, 2);
    locale_t locale = newlocale(LC_ALL_MASK, "C.UTF-8", (locale_t)0);
    assert_true(locale != (locale_t)0);
    freelocale(locale);
}

static int write_for_ever(void *arg, void **value)
{
    size_t *written = arg;
    char *text;
    size_t size;
    (void)value;
    spend_everything();
    FILE *stream = open_memstream(&text, &size);
    if (stream == NULL)
        return ENOMEM;
    static char piece[4096];
    while (fwrite(piece, sizeof piece, 1, stream) == 1 && fflush(stream) == 0)
        *written += sizeof piece;
    fclose(stream);
    return 0;
}

TEST(the_reserve_is_charged_and_has_an_end)
{
    stint_options options = STINT_OPTIONS_INIT;
    size_t written = 0;
    options.on_interrupt = STINT_FAIL;
    options.budget.allocation = 1000;
    options.grace = 64;
    stint_outcome outcome;
    assert_int_equal(stint_run(write_for_ever, &written, &options, &outcome), 0);
    assert_int_equal(outcome.reason, STINT_REASON_ALLOCATION_LIMIT);
    assert_in_range(written, 1, RESERVE);
    assert_in_range(outcome.usage.allocated, RESERVE / 4, RESERVE + MIB);
}

TEST_MAIN()
