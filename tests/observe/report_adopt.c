/* SPDX-License-Identifier: MIT
 *
 * Reports of another process: a report's bytes become a report that says the same. Any other bytes do no worse than a
 * report with wrong contents. */
#include "support.h"

#include <math.h>
#include <signal.h>
#include <sys/mman.h>

#include "alloc/observe/report.h"

#define ROUNDS 20000
#define WRITTEN 20 /* of each, in all kinds */

static volatile unsigned sink;

static __attribute__((noinline)) int grow(void *arg, void **value)
{
    (void)arg;
    for (void **node; (node = stint_malloc((size_t)16 + (size_t)sink % 4000)) != NULL; sink = sink * 5 + 1) {
        *node = *value;
        *value = node;
    }
    return ENOMEM;
}

/* One that has as much as can be had of all there is. */
static stint_report *make_report(void)
{
    stint_report *report;
    stint_outcome outcome;
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.memory = MIB;
    options.report = STINT_REPORT_HEAP;
    options.name = "a task";
    options.account = make_account_of(NULL, NULL);
    options.sample_rate = 1.0 / 512;
    assert_int_equal(stint_run_reported(grow, NULL, &options, &outcome, &report), 0);
    assert_int_equal(outcome.reason, STINT_REASON_MEMORY_LIMIT);
    assert_non_null(report);
    assert_true(report->holder_count > 0);
    assert_true(report->heap.class_count > 0);
    assert_true(report->point_count > 0);
    stint_account_release(options.account);
    report->root_count = 1;
    report->roots[0] = (struct sti_report_root){ .address = (uintptr_t)&sink, .where = "data", .module = "a module" };
    report->wait_count = 1;
    report->waits[0] = (struct sti_report_wait){ .rule = STINT_DEFERRAL_LOCK, .at = (uintptr_t)&sink, .times = 1 };
    return report;
}

static char *written(const stint_report *report, stint_report_kind kind)
{
    int file = memfd_create("report", MFD_CLOEXEC);
    assert_true(file >= 0);
    assert_int_equal(stint_report_write(report, file, kind), 0);
    off_t size = lseek(file, 0, SEEK_END);
    char *text = test_calloc((size_t)size + 1, 1);
    assert_int_equal(pread(file, text, (size_t)size, 0), size);
    close(file);
    return text;
}

static void write_all_kinds(const stint_report *report)
{
    for (int kind = STINT_REPORT_TEXT; kind <= STINT_REPORT_PPROF; kind++)
        test_free(written(report, (stint_report_kind)kind));
}

/* A copy of its bytes, to be freed by test_free. */
static unsigned char *bytes_of(const stint_report *report, size_t *size)
{
    *size = sizeof *report;
    return memcpy(test_malloc(*size), report, *size);
}

/* As sti_report_describe does it, of a task and its outcome. */
static void describe_as(stint_report *adopted, const stint_report *report)
{
    const size_t begin = offsetof(stint_report, status);
    memcpy((char *)adopted + begin, (const char *)report + begin, offsetof(stint_report, is_delivered) - begin);
}

TEST(the_bytes_of_a_report_become_one_that_says_the_same)
{
    size_t size;
    stint_report *report = make_report();
    unsigned char *bytes = bytes_of(report, &size);
    stint_report *adopted = NULL;
    assert_int_equal(sti_report_adopt(bytes, size, &adopted), 0);
    describe_as(adopted, report);
    for (int kind = STINT_REPORT_TEXT; kind <= STINT_REPORT_JSON; kind++) {
        char *before = written(report, (stint_report_kind)kind);
        char *after = written(adopted, (stint_report_kind)kind);
        assert_string_equal(before, after);
        test_free(before);
        test_free(after);
    }
    write_all_kinds(adopted);
    stint_report_release(adopted);
    stint_report_release(report);
    test_free(bytes);
}

/* A report with a changed field becomes one that can be written in all kinds. */
#define assert_made_safe(field, change)                                                                                \
    do {                                                                                                               \
        size_t size;                                                                                                   \
        stint_report *changed = make_report();                                                                         \
        stint_report *adopted = NULL;                                                                                  \
        change(changed->field);                                                                                        \
        unsigned char *bytes = bytes_of(changed, &size);                                                               \
        assert_int_equal(sti_report_adopt(bytes, size, &adopted), 0);                                                  \
        assert_true(is_safe(adopted));                                                                                 \
        write_all_kinds(adopted);                                                                                      \
        stint_report_release(adopted);                                                                                 \
        test_free(bytes);                                                                                              \
        stint_report_release(changed);                                                                                 \
    } while (0)

#define TOO_MANY(field) field = (size_t)1000
#define NO_TRUTH(field) memset(&field, 2, 1)
#define NO_VALUE(field) field = (__typeof__(field))77
#define NO_END(field) memset(field, 'x', sizeof field)
#define NO_NUMBER(field) field = NAN
#define ENDLESS(field) field = HUGE_VAL
#define NEGATIVE(field) field = (__typeof__(field))-1
#define ZERO(field) field = 0

static bool is_truth(const bool *value)
{
    unsigned char byte;
    memcpy(&byte, value, sizeof byte);
    return byte <= 1;
}

static bool is_ended(const char *text, size_t size)
{
    return memchr(text, '\0', size) != NULL;
}

static bool has_its_size(const stint_report *report)
{
    const struct sti_report_heap *heap = &report->heap;
    return report->tripped.length <= STI_REPORT_DEPTH && report->delivered.length <= STI_REPORT_DEPTH &&
           report->wait_count <= STI_REPORT_WAITS && report->point_count <= STI_REPORT_POINTS &&
           report->root_count <= STI_REPORT_ROOTS && report->holder_count <= STI_REPORT_HOLDERS &&
           report->holders[0].length <= STI_REPORT_HOLDER_DEPTH && heap->class_count <= STI_REPORT_CLASSES &&
           heap->classes[0].content_count <= STI_REPORT_CONTENTS && heap->largest_count <= STI_REPORT_LARGEST;
}

static bool is_safe(const stint_report *report)
{
    const struct sti_report_heap *heap = &report->heap;
    return has_its_size(report) && is_truth(&report->is_delivered) && is_truth(&report->was_elsewhere) &&
           is_truth(&report->tripped.is_cut) && is_truth(&report->delivered.is_cut) && is_truth(&report->is_sampled) &&
           is_truth(&heap->is_taken) && is_ended(report->roots[0].where, sizeof report->roots[0].where) &&
           is_ended(report->roots[0].module, sizeof report->roots[0].module) &&
           (unsigned)heap->largest[0].contents.kind <= STI_REPORT_POINTER && isfinite(report->interval) &&
           report->interval >= 0;
}

TEST(what_cannot_be_true_is_made_safe)
{
    assert_made_safe(is_delivered, NO_TRUTH);
    assert_made_safe(was_elsewhere, NO_TRUTH);
    assert_made_safe(tripped.length, TOO_MANY);
    assert_made_safe(tripped.is_cut, NO_TRUTH);
    assert_made_safe(delivered.length, TOO_MANY);
    assert_made_safe(delivered.is_cut, NO_TRUTH);
    assert_made_safe(wait_count, TOO_MANY);
    assert_made_safe(waits[0].rule, NO_VALUE);
    assert_made_safe(point_count, TOO_MANY);
    assert_made_safe(root_count, TOO_MANY);
    assert_made_safe(roots[0].where, NO_END);
    assert_made_safe(roots[0].module, NO_END);
    assert_made_safe(holder_count, TOO_MANY);
    assert_made_safe(holders[0].length, TOO_MANY);
    assert_made_safe(is_sampled, NO_TRUTH);
    assert_made_safe(interval, NO_NUMBER);
    assert_made_safe(interval, ENDLESS);
    assert_made_safe(interval, NEGATIVE);
    assert_made_safe(heap.is_taken, NO_TRUTH);
    assert_made_safe(heap.class_count, TOO_MANY);
    assert_made_safe(heap.largest_count, TOO_MANY);
    assert_made_safe(heap.classes[0].content_count, TOO_MANY);
    assert_made_safe(heap.bytes, ZERO);
    assert_made_safe(heap.largest[0].contents.kind, NO_VALUE);
}

TEST(shares_of_blocks_that_were_not_looked_at_are_left_out)
{
    size_t size;
    stint_report *report = make_report();
    struct sti_report_class *class = &report->heap.classes[0];
    class->content_count = 1;
    class->contents[0] = (struct sti_report_contents){ .kind = STI_REPORT_ZEROS, .count = 1 };
    class->looked_at = 0;
    unsigned char *bytes = bytes_of(report, &size);
    stint_report *adopted = NULL;
    assert_int_equal(sti_report_adopt(bytes, size, &adopted), 0);
    assert_int_equal(adopted->heap.classes[0].content_count, 0);
    stint_report_release(adopted);
    test_free(bytes);
    stint_report_release(report);
}

TEST(a_terminal_is_shown_no_control_characters)
{
    size_t size;
    stint_report *report = make_report();
    struct sti_report_class *class = &report->heap.classes[0];
    strcpy(report->roots[0].where, "\033[2J");
    class->content_count = class->looked_at = 1;
    class->contents[0] = (struct sti_report_contents){ .kind = STI_REPORT_STRING, .count = 1, .text = "\033[2J" };
    unsigned char *bytes = bytes_of(report, &size);
    stint_report *adopted = NULL;
    assert_int_equal(sti_report_adopt(bytes, size, &adopted), 0);
    char *text = written(adopted, STINT_REPORT_TEXT);
    assert_null(strchr(text, '\033'));
    test_free(text);
    stint_report_release(adopted);
    test_free(bytes);
    stint_report_release(report);
}

TEST(what_only_the_program_can_know_is_not_taken_over)
{
    size_t size;
    stint_report *report = make_report();
    stint_report *adopted = NULL;
    unsigned char *bytes = bytes_of(report, &size);
    stint_report *said = (stint_report *)(void *)bytes;
    said->is_mapped = true;
    atomic_store(&said->references, 7);
    said->others = (struct sti_other_modules){ .list = (void *)16, .count = 16 };
    said->is_dead = true;
    said->death.signal = SIGKILL;
    assert_int_equal(sti_report_adopt(bytes, size, &adopted), 0);
    assert_false(adopted->is_mapped);
    assert_int_equal(atomic_load(&adopted->references), 1);
    assert_int_equal(adopted->others.count, 0);
    assert_false(adopted->is_dead);
    assert_int_equal(adopted->death.signal, 0);
    stint_report_release(adopted);
    stint_report_release(report);
    test_free(bytes);
}

TEST(bytes_of_another_size_are_refused)
{
    size_t size;
    stint_report *report = make_report();
    stint_report *adopted = NULL;
    unsigned char *bytes = bytes_of(report, &size);
    assert_int_equal(sti_report_adopt(bytes, size - 1, &adopted), EPROTO);
    assert_int_equal(sti_report_adopt(bytes, 0, &adopted), EPROTO);
    test_free(bytes);
    stint_report_release(report);
}

/* --- Whatever comes. */

static void try_bytes(const unsigned char *bytes, size_t size, unsigned round)
{
    stint_report *adopted = NULL;
    assert_int_equal(sti_report_adopt(bytes, size, &adopted), 0);
    if (round < WRITTEN)
        write_all_kinds(adopted);
    stint_report_release(adopted);
}

TEST(random_bytes_do_no_harm)
{
    uint64_t seed = 1;
    const size_t size = sizeof(struct stint_report);
    unsigned char *bytes = test_malloc(size);
    for (unsigned round = 0; round < ROUNDS / 100; round++) {
        for (size_t i = 0; i < size; i++)
            bytes[i] = (unsigned char)random_next(&seed);
        try_bytes(bytes, size, round);
    }
    test_free(bytes);
}

/* The head is a small part of it, and lists beyond their counts are not looked at: so each second bit is there. */
static size_t random_place(uint64_t *seed, size_t size)
{
    size_t head = offsetof(struct stint_report, tripped);
    return random_below(seed, 2) == 0 ? random_below(seed, head) : random_below(seed, size);
}

TEST(bits_of_a_report_that_have_changed_do_no_harm)
{
    size_t size;
    uint64_t seed = 2;
    stint_report *report = make_report();
    unsigned char *original = bytes_of(report, &size);
    unsigned char *bytes = test_malloc(size);
    for (unsigned round = 0; round < ROUNDS; round++) {
        memcpy(bytes, original, size);
        for (size_t flips = 1 + random_below(&seed, 8); flips > 0; flips--)
            bytes[random_place(&seed, size)] ^= (unsigned char)(1U << random_below(&seed, 8));
        try_bytes(bytes, size, round);
    }
    stint_report_release(report);
    test_free(original);
    test_free(bytes);
}

TEST_MAIN()
