/* SPDX-License-Identifier: MIT
 *
 * The modules that an interrupt leaves in their midst: those that the program allows. Functions of all others return,
 * and see at worst an allocation that fails. */
#include "support.h"

#include <pthread.h>
#include <sys/mman.h>

#include "left_lib/library.h"

#define LIMIT (100 * KIB)
#define PAST_THE_GRACE 4096 /* KiB */

static stint_options limited_in(stint_on_interrupt mode)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.allocation = LIMIT;
    options.on_interrupt = mode;
    return options;
}

static int returned; /* what the library has said */
static bool went_on; /* an allocation behind it has been made */

static int work_past_the_grace(void *library, void **value)
{
    (void)value;
    returned = ((struct left_library *)library)->work(PAST_THE_GRACE);
    went_on = keep(malloc(1000)) != NULL;
    return 0;
}

static stint_outcome run_in(struct left_library *library, stint_on_interrupt mode)
{
    stint_options options = limited_in(mode);
    returned = 1;
    went_on = false;
    stint_outcome outcome = run_task(work_past_the_grace, library, &options);
    assert_limit_passed(outcome);
    assert_false(went_on);
    return outcome;
}

TEST(a_library_of_which_nothing_is_known_sees_an_allocation_fail_and_returns)
{
    for (int mode = STINT_JUMP; mode <= STINT_UNWIND; mode++) {
        unsigned long refused = left_unlisted.refused;
        stint_outcome outcome = run_in(&left_unlisted, (stint_on_interrupt)mode);
        assert_int_equal(left_unlisted.begun, left_unlisted.ended);
        assert_int_equal(left_unlisted.refused, refused + 1);
        assert_int_equal(returned, -1);
        if (mode != STINT_FAIL)
            assert_true(outcome.usage.deferred > 100); /* it had the grace */
    }
}

static int work_a_little_and_go_on(void *library, void **value)
{
    (void)value;
    returned = ((struct left_library *)library)->work(2 * LIMIT / 1000);
    size_t behind = 0;
    while (keep(malloc(16)) != NULL)
        *value = (void *)(behind += 16);
    return 0;
}

TEST(an_interrupt_comes_soon_after_it_has_returned)
{
    stint_options options = limited_in(STINT_JUMP);
    stint_outcome outcome = run_task(work_a_little_and_go_on, &left_unlisted, &options);
    assert_limit_passed(outcome);
    assert_int_equal(returned, 0);
    assert_in_range(outcome.usage.allocated, 2 * LIMIT, 2 * LIMIT + 20 * KIB);
}

static bool saw_a_refusal;

static int use_up_the_grace_and_go_on(void *library, void **value)
{
    (void)value;
    ((struct left_library *)library)->work((LIMIT + 60 * KIB) / 1000);
    saw_a_refusal = keep(malloc(16 * KIB)) == NULL;
    return 0;
}

TEST(nothing_is_refused_for_a_library_that_has_returned)
{
    stint_options options = limited_in(STINT_JUMP);
    options.grace = 64 * KIB;
    saw_a_refusal = false;
    stint_outcome outcome = run_task(use_up_the_grace_and_go_on, &left_unlisted, &options);
    assert_limit_passed(outcome);
    assert_true(outcome.usage.deferred > 0);
    assert_false(saw_a_refusal);
}

static int ask_in_the_library(void *library, void **value)
{
    (void)value;
    ((struct left_library *)library)->work(2 * LIMIT / 1000);
    stint_checkpoint();
    went_on = true;
    return 0;
}

TEST(a_checkpoint_behind_it_asks_at_once)
{
    stint_options options = limited_in(STINT_JUMP);
    went_on = false;
    assert_limit_passed(run_task(ask_in_the_library, &left_unlisted, &options));
    assert_false(went_on);
}

static void assert_left(struct left_library *library)
{
    static const stint_on_interrupt ways[] = { STINT_JUMP, STINT_UNWIND };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        unsigned long begun = library->begun;
        unsigned long ended = library->ended;
        stint_outcome outcome = run_in(library, ways[i]);
        assert_int_equal(library->begun, begun + 1);
        assert_int_equal(library->ended, ended);
        assert_int_equal(library->refused, 0);
        assert_in_range(outcome.usage.allocated, LIMIT - 2000, LIMIT);
    }
}

static void assert_not_left(struct left_library *library)
{
    run_in(library, STINT_JUMP);
    assert_int_equal(library->begun, library->ended);
}

TEST(a_library_that_is_allowed_is_left)
{
    assert_not_left(&left_allowed);
    left_allowed.refused = 0;
    assert_int_equal(stint_module_allow("libleft-allowed"), 0);
    assert_int_equal(stint_module_allow("libleft-allowed"), 0);
    assert_left(&left_allowed);
    assert_not_left(&left_unlisted);
}

TEST(a_pattern_allows_all_that_begin_so)
{
    assert_int_equal(stint_module_allow("libleft-pat*"), 0);
    assert_left(&left_pattern);
    assert_not_left(&left_unlisted);
}

TEST(what_is_protected_is_never_left)
{
    assert_int_equal(stint_module_allow("libleft-protected*"), 0);
    assert_int_equal(stint_module_protect("libleft-protected"), 0);
    assert_int_equal(stint_module_allow("libleft-protected"), EPERM);
    assert_not_left(&left_protected);
}

TEST(what_cannot_be_allowed_is_refused)
{
    static const char *const wrong[] = { NULL, "", "/usr/lib/libz.so", "lib*z", "**" };
    static const char *const never[] = {
        "libc", "libc.so.6", "ld-linux-x86-64", "libstdc++", "libgomp", "libmimalloc"
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(stint_module_allow(wrong[i]), EINVAL);
    for (size_t i = 0; i < sizeof never / sizeof *never; i++)
        assert_int_equal(stint_module_allow(never[i]), EPERM);
    assert_int_equal(stint_module_protect("lib*"), EINVAL);
}

TEST(the_environment_allows_too)
{
    assert_left(&left_variable);
}

/* --- Between the program's own frames --- */

static void allocate_to_the_end(void *unused)
{
    (void)unused;
    for (int i = 0; i < PAST_THE_GRACE && keep(malloc(1000)) != NULL; i++)
        continue;
}

static int call_through(void *library, void **value)
{
    (void)value;
    ((struct left_library *)library)->call(allocate_to_the_end, NULL);
    return 0;
}

TEST(no_callback_is_left_over_a_frame_of_such_a_library)
{
    stint_options options = limited_in(STINT_JUMP);
    assert_limit_passed(run_task(call_through, &left_unlisted, &options));
    assert_int_equal(left_unlisted.begun, left_unlisted.ended);
    unsigned long ended = left_allowed.ended;
    assert_limit_passed(run_task(call_through, &left_allowed, &options));
    assert_int_equal(left_allowed.ended, ended);
}

/* --- By a signal --- */

static void *end_it_soon(void *library)
{
    usleep(50000);
    atomic_store_explicit(&((struct left_library *)library)->ends, true, memory_order_relaxed);
    return NULL;
}

static int spin_in(void *library, void **value)
{
    (void)value;
    ((struct left_library *)library)->spin();
    return 0;
}

static void run_spinning(struct left_library *library)
{
    stint_options options = STINT_OPTIONS_INIT;
    stint_outcome outcome;
    pthread_t other;
    options.preemptible = true;
    options.budget.wall_ns = MS;
    assert_int_equal(pthread_create(&other, NULL, end_it_soon, library), 0);
    assert_int_equal(stint_run(spin_in, library, &options, &outcome), 0);
    assert_int_equal(outcome.reason, STINT_REASON_DEADLINE);
    pthread_join(other, NULL);
}

TEST(a_signal_leaves_only_what_is_allowed)
{
    unsigned long begun = left_unlisted.begun;
    run_spinning(&left_unlisted);
    assert_int_equal(left_unlisted.begun, begun + 1);
    assert_int_equal(left_unlisted.begun, left_unlisted.ended);
    unsigned long ended = left_allowed.ended;
    run_spinning(&left_allowed);
    assert_int_equal(left_allowed.ended, ended);
}

/* --- Code that nothing describes --- */

/* Calls its argument with NULL, and has no table. */
void call_bare(void (*function)(void *));
__asm__(".pushsection .text\n"
        ".type call_bare, @function\n"
        ".globl call_bare\n"
        "call_bare:\n"
#if defined(__x86_64__)
        "movq %rdi, %rax\n"
        "xorl %edi, %edi\n"
        "subq $8, %rsp\n"
        "call *%rax\n"
        "addq $8, %rsp\n"
#elif defined(__aarch64__)
        "stp x29, x30, [sp, #-16]!\n"
        "mov x1, x0\n"
        "mov x0, xzr\n"
        "blr x1\n"
        "ldp x29, x30, [sp], #16\n"
#elif defined(__riscv)
        "addi sp, sp, -16\n"
        "sd ra, 8(sp)\n"
        "mv t0, a0\n"
        "li a0, 0\n"
        "jalr t0\n"
        "ld ra, 8(sp)\n"
        "addi sp, sp, 16\n"
#endif
        "ret\n"
        ".size call_bare, . - call_bare\n"
        ".popsection\n");

static int call_without_a_table(void *arg, void **value)
{
    (void)arg;
    (void)value;
    call_bare(allocate_to_the_end);
    went_on = true;
    return 0;
}

TEST(code_without_a_table_is_not_left)
{
    stint_options options = limited_in(STINT_JUMP);
    went_on = false;
    assert_limit_passed(run_task(call_without_a_table, NULL, &options));
    assert_true(went_on);
}

/* Calls its argument. */
#if defined(__x86_64__)
static const uint8_t code[] = {
    0x48, 0x83, 0xec, 0x08, /* sub $8, %rsp */
    0xff, 0xd7,             /* call *%rdi */
    0x48, 0x83, 0xc4, 0x08, /* add $8, %rsp */
    0xc3,                   /* ret */
};
#elif defined(__aarch64__)
static const uint32_t code[] = {
    0xa9bf7bfd, /* stp x29, x30, [sp, #-16]! */
    0xd63f0000, /* blr x0 */
    0xa8c17bfd, /* ldp x29, x30, [sp], #16 */
    0xd65f03c0, /* ret */
};
#elif defined(__riscv)
static const uint32_t code[] = {
    0xff010113, /* addi sp, sp, -16 */
    0x00113423, /* sd ra, 8(sp) */
    0x000500e7, /* jalr a0 */
    0x00813083, /* ld ra, 8(sp) */
    0x01010113, /* addi sp, sp, 16 */
    0x00008067, /* ret */
};
#endif

static int call_generated(void *generated, void **value)
{
    void (*function)(void (*)(void *));
    (void)value;
    *(void **)&function = generated;
    function(allocate_to_the_end);
    went_on = true;
    return 0;
}

TEST(generated_code_is_not_left)
{
    void *generated = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(generated, MAP_FAILED);
    memcpy(generated, code, sizeof code);
    __builtin___clear_cache(generated, (char *)generated + sizeof code);
    for (int mode = STINT_JUMP; mode <= STINT_UNWIND; mode++) {
        stint_options options = limited_in((stint_on_interrupt)mode);
        went_on = false;
        assert_limit_passed(run_task(call_generated, generated, &options));
        assert_true(went_on);
    }
    munmap(generated, 4096);
}

int main(int argc, char **argv)
{
    (void)argc;
    if (getenv("STINT_ALLOW") == NULL) {
        setenv("STINT_ALLOW", ":/wrong:libleft-none:libleft-variable:", 1);
        execv("/proc/self/exe", argv);
        return 1;
    }
    return run_all_tests(NULL, NULL);
}
