/* SPDX-License-Identifier: MIT
 *
 * Reports of another process: bytes that are a report's become one that says the same, and of any others nothing worse
 * comes than that they are refused, or that a report says what is not so. */
#include "support.h"

#include <math.h>
#include <signal.h>
#include <sys/mman.h>

#include "alloc/report/adopt.h"

#define ROUNDS 20000
#define WRITTEN 200 /* of those that are taken over, in all kinds */

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
    const void *bytes = sti_report_bytes_of(report, size);
    unsigned char *copy = test_malloc(*size);
    memcpy(copy, bytes, *size);
    return copy;
}

TEST(the_bytes_of_a_report_become_one_that_says_the_same)
{
    size_t size;
    stint_report *report = make_report();
    unsigned char *bytes = bytes_of(report, &size);
    stint_report *adopted = NULL;
    assert_int_equal(sti_report_adopt(bytes, size, &adopted), 0);
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

/* The report with a field that is changed so is refused. */
#define assert_refused(field, change)                                                                                  \
    do {                                                                                                               \
        size_t size;                                                                                                   \
        stint_report *changed = make_report();                                                                         \
        stint_report *adopted = NULL;                                                                                  \
        change(changed->field);                                                                                        \
        unsigned char *bytes = bytes_of(changed, &size);                                                               \
        assert_int_equal(sti_report_adopt(bytes, size, &adopted), EPROTO);                                             \
        assert_null(adopted);                                                                                          \
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

TEST(what_cannot_be_true_is_refused)
{
    assert_refused(status, NO_VALUE);
    assert_refused(status, ZERO);
    assert_refused(reason, NO_VALUE);
    assert_refused(level, NO_VALUE);
    assert_refused(on_interrupt, NO_VALUE);
    assert_refused(is_named, NO_TRUTH);
    assert_refused(name, NO_END);
    assert_refused(account, NO_END);
    assert_refused(is_delivered, NO_TRUTH);
    assert_refused(was_elsewhere, NO_TRUTH);
    assert_refused(tripped.length, TOO_MANY);
    assert_refused(tripped.is_cut, NO_TRUTH);
    assert_refused(delivered.length, TOO_MANY);
    assert_refused(delivered.is_cut, NO_TRUTH);
    assert_refused(wait_count, TOO_MANY);
    assert_refused(waits[0].rule, NO_VALUE);
    assert_refused(point_count, TOO_MANY);
    assert_refused(root_count, TOO_MANY);
    assert_refused(roots[0].where, NO_END);
    assert_refused(roots[0].module, NO_END);
    assert_refused(holder_count, TOO_MANY);
    assert_refused(holders[0].length, TOO_MANY);
    assert_refused(is_sampled, NO_TRUTH);
    assert_refused(interval, NO_NUMBER);
    assert_refused(interval, ENDLESS);
    assert_refused(interval, NEGATIVE);
    assert_refused(heap.is_taken, NO_TRUTH);
    assert_refused(heap.is_searched, NO_TRUTH);
    assert_refused(heap.class_count, TOO_MANY);
    assert_refused(heap.class_count, ZERO);
    assert_refused(heap.largest_count, TOO_MANY);
    assert_refused(heap.classes[0].content_count, TOO_MANY);
    assert_refused(heap.classes[0].size, ZERO);
    assert_refused(heap.bytes, ZERO);
    assert_refused(heap.blocks, ZERO);
    assert_refused(heap.libc_bytes, NEGATIVE);
    assert_refused(heap.largest[0].contents.kind, NO_VALUE);
}

TEST(a_place_of_a_root_that_nobody_knows_is_refused)
{
    size_t size;
    stint_report *report = make_report();
    strcpy(report->roots[0].where, "elsewhere");
    unsigned char *bytes = bytes_of(report, &size);
    stint_report *adopted = NULL;
    assert_int_equal(sti_report_adopt(bytes, size, &adopted), EPROTO);
    test_free(bytes);
    stint_report_release(report);
}

TEST(the_contents_of_blocks_that_were_not_looked_at_are_refused)
{
    size_t size;
    stint_report *report = make_report();
    struct sti_report_class *class = &report->heap.classes[0];
    class->content_count = 1;
    class->contents[0] = (struct sti_report_contents){ .kind = STI_REPORT_ZEROS, .count = 1 };
    class->looked_at = 0;
    unsigned char *bytes = bytes_of(report, &size);
    stint_report *adopted = NULL;
    assert_int_equal(sti_report_adopt(bytes, size, &adopted), EPROTO);
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
    said->next = (stint_report *)16;
    atomic_store(&said->references, 7);
    said->others = (struct sti_other_modules){ .list = (void *)16, .count = 16 };
    said->is_dead = true;
    said->death.signal = SIGKILL;
    assert_int_equal(sti_report_adopt(bytes, size, &adopted), 0);
    assert_false(adopted->is_mapped);
    assert_null(adopted->next);
    assert_int_equal(atomic_load(&adopted->references), 1);
    assert_int_equal(adopted->others.count, 0);
    assert_false(adopted->is_dead);
    assert_int_equal(adopted->death.signal, 0);
    stint_report_release(adopted);
    stint_report_release(report);
    test_free(bytes);
}

TEST(a_reason_that_only_the_program_can_give_is_refused)
{
    static const stint_reason reasons[] = { STINT_REASON_NONE, STINT_REASON_CRASH, STINT_REASON_EXIT,
                                            STINT_REASON_KILLED, STINT_REASON_BROKEN };
    size_t size;
    stint_report *report = make_report();
    stint_report *adopted = NULL;
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++) {
        report->reason = reasons[i];
        unsigned char *bytes = bytes_of(report, &size);
        assert_int_equal(sti_report_adopt(bytes, size, &adopted), EPROTO);
        test_free(bytes);
    }
    assert_null(adopted);
    stint_report_release(report);
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

static void try_bytes(const unsigned char *bytes, size_t size, unsigned *taken, unsigned *refused)
{
    stint_report *adopted = NULL;
    int error = sti_report_adopt(bytes, size, &adopted);
    assert_true(error == 0 || error == EPROTO);
    if (error != 0) {
        ++*refused;
        return;
    }
    if (++*taken <= WRITTEN)
        write_all_kinds(adopted);
    stint_report_release(adopted);
}

TEST(random_bytes_do_no_harm)
{
    uint64_t seed = 1;
    unsigned taken = 0;
    unsigned refused = 0;
    const size_t size = sizeof(struct stint_report);
    unsigned char *bytes = test_malloc(size);
    for (unsigned round = 0; round < ROUNDS / 100; round++) {
        for (size_t i = 0; i < size; i++)
            bytes[i] = (unsigned char)random_next(&seed);
        try_bytes(bytes, size, &taken, &refused);
    }
    assert_true(refused > 0);
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
    unsigned taken = 0;
    unsigned refused = 0;
    stint_report *report = make_report();
    unsigned char *original = bytes_of(report, &size);
    unsigned char *bytes = test_malloc(size);
    for (unsigned round = 0; round < ROUNDS; round++) {
        memcpy(bytes, original, size);
        for (size_t flips = 1 + random_below(&seed, 8); flips > 0; flips--)
            bytes[random_place(&seed, size)] ^= (unsigned char)(1U << random_below(&seed, 8));
        try_bytes(bytes, size, &taken, &refused);
    }
    assert_true(taken > WRITTEN);
    assert_true(refused > 0);
    stint_report_release(report);
    test_free(original);
    test_free(bytes);
}

TEST_MAIN()
