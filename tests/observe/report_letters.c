/* SPDX-License-Identifier: MIT
 *
 * The report of a task whose blocks begin with pointers that look like text: this program is linked to an address whose
 * bytes are letters. */
#include "reports.h"

#define BLOCKS 1000

/* Of 128 KiB of data the address of which four bytes are letters. */
static char *place_of_letters(void)
{
    static char data[1 << 17] = { 1 };
    uintptr_t letters = (((uintptr_t)data >> 16) + 1) << 16 | 0x4141;
    assert_in_range(letters, data, data + sizeof data - 1);
    return (char *)letters;
}

static void *keep_in_chain(void *newest, void *first)
{
    void **block = malloc(4 * sizeof *block);
    if (block == NULL)
        return newest;
    block[0] = first;
    block[1] = newest;
    block[2] = block[3] = NULL;
    return block;
}

static int make_objects(void *first, void **value)
{
    for (int i = 0; i < BLOCKS; i++)
        *value = keep_in_chain(*value, first);
    return EBADMSG;
}

TEST(a_pointer_of_letters_into_a_module_is_no_text)
{
    (void)state;
    stint_options options = options_of(STINT_REPORT_HEAP, 0);
    json_t *report = read_of(make_objects, place_of_letters(), &options, STINT_REASON_FAILED);
    json_t *contents = json_at(class_for(report, 4 * sizeof(void *)), "contents");
    assert_int_equal(json_array_size(contents), 1);
    contents = json_array_get(contents, 0);
    assert_string_equal(json_string_value(json_at(contents, "begins_with")), "pointer");
    assert_int_equal(number_of(json_at(contents, "word")), 0);
    json_decref(report);
}

/* Four letters that are the end of a text lead nowhere. */
TEST(letters_elsewhere_are_text)
{
    (void)state;
    stint_options options = options_of(STINT_REPORT_HEAP, 0);
    json_t *report = read_of(make_objects, (void *)(uintptr_t)0x7a7a7a7a, &options, STINT_REASON_FAILED);
    json_t *contents = json_array_get(json_at(class_for(report, 4 * sizeof(void *)), "contents"), 0);
    assert_string_equal(json_string_value(json_at(contents, "begins_with")), "text");
    assert_string_equal(json_string_value(json_at(contents, "text")), "zzzz");
    json_decref(report);
}

TEST_MAIN()
