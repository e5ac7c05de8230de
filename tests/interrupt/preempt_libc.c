/* SPDX-License-Identifier: MIT
 *
 * Preemption in functions of libc: the plain ones are left in their midst, unless libc itself has called them;
 * callbacks of libc are not left. */
#include "preempting.h"

#include <dlfcn.h>
#include <search.h>
#include <stdatomic.h>

#define COMPARED ((size_t)1 << 20)
#define TURNS 20000 /* half a second: a call that is not stopped in its midst mostly comes to its end */

static char compared[2][COMPARED];
static int (*volatile compare)(const void *one, const void *other, size_t size);
static void *(*volatile copy)(void *to, const void *from, size_t size);
static size_t (*volatile measure)(const char *text);

static volatile bool came_to_its_end;

static int compare_for_long(void *unused, void **value)
{
    (void)unused;
    (void)value;
    for (int i = 0; i < TURNS; i++)
        turns += (unsigned long)compare(compared[0], compared[1], COMPARED);
    came_to_its_end = true;
    return 0;
}

static int copy_for_long(void *unused, void **value)
{
    (void)unused;
    (void)value;
    for (int i = 0; i < TURNS; i++)
        copy(compared[0], compared[1], COMPARED);
    came_to_its_end = true;
    return 0;
}

static int measure_for_long(void *unused, void **value)
{
    (void)unused;
    (void)value;
    char *text = stint_malloc(COMPARED);
    memset(text, 'x', COMPARED - 1);
    text[COMPARED - 1] = 0;
    for (int i = 0; i < TURNS; i++)
        turns += measure(text);
    came_to_its_end = true;
    return 0;
}

/* A sanitizer puts functions of its own, which are never left, before those that the program finds by name. */
static void find_functions_of_libc(void)
{
    void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
    assert_non_null(libc);
    compare = (int (*)(const void *, const void *, size_t))dlsym(libc, "memcmp");
    copy = (void *(*)(void *, const void *, size_t))dlsym(libc, "memcpy");
    measure = (size_t(*)(const char *))dlsym(libc, "strlen");
    dlclose(libc);
    assert_true(compare != NULL && copy != NULL && measure != NULL);
}

/* Almost every signal finds the thread in there. */
TEST(a_loop_over_a_plain_function_of_libc_is_left_in_its_midst)
{
    find_functions_of_libc();
    static stint_fn *const loops[] = { compare_for_long, copy_for_long, measure_for_long };
    stint_options options = preemptible;
    options.budget.wall_ns = MS;
    for (size_t i = 0; i < sizeof loops / sizeof *loops; i++) {
        for (int round = 0; round < 10; round++) {
            stint_outcome outcome;
            came_to_its_end = false;
            assert_int_equal(stint_run(loops[i], NULL, &options, &outcome), 0);
            assert_int_equal(outcome.reason, STINT_REASON_DEADLINE);
            assert_false(came_to_its_end);
        }
    }
}

static int write_for_a_while(void *stream, void **value)
{
    (void)value;
    for (int i = 0; i < 500; i++)
        fwrite(compared[0], 1, COMPARED / 2, stream);
    return 0;
}

/* Whose lock it is, its own thread would not find out. */
static void *try_lock(void *stream)
{
    bool is_free = ftrylockfile(stream) == 0;
    if (is_free)
        funlockfile(stream);
    return is_free ? stream : NULL;
}

/* There libc copies most of the time, with the stream's lock. */
TEST(a_plain_function_that_libc_has_called_is_not_left)
{
    FILE *stream = fopen("/dev/null", "w");
    assert_non_null(stream);
    setvbuf(stream, compared[1], _IOFBF, COMPARED);
    stint_options options = preemptible;
    options.budget.wall_ns = MS;
    for (int round = 0; round < 20; round++) {
        stint_outcome outcome;
        assert_int_equal(stint_run(write_for_a_while, stream, &options, &outcome), 0);
        pthread_t other;
        void *is_free;
        assert_int_equal(pthread_create(&other, NULL, try_lock, stream), 0);
        pthread_join(other, &is_free);
        assert_non_null(is_free);
    }
    fclose(stream);
}

/* Called back by libc, with a frame of its own that no simple rule describes: so only libgcc can walk there. */
int turn_oddly(const void *a, const void *b);
extern atomic_int odd_turns_end;
atomic_int odd_turns_end;

__asm__(".pushsection .text\n"
        ".globl turn_oddly\n"
        ".type turn_oddly, @function\n"
        "turn_oddly:\n"
        ".cfi_startproc\n"
#if defined(__x86_64__)
        ".cfi_escape 0x0f, 2, 0x77, 8\n" /* breg7 8, as an expression */
        "movq odd_turns_end@GOTPCREL(%rip), %rcx\n"
        "1: cmpl $0, (%rcx)\n"
        "je 1b\n"
        "xorl %eax, %eax\n"
#elif defined(__aarch64__)
        ".cfi_escape 0x0f, 2, 0x8f, 0\n" /* breg31 0 */
        "adrp x1, :got:odd_turns_end\n"
        "ldr x1, [x1, :got_lo12:odd_turns_end]\n"
        "1: ldr w0, [x1]\n"
        "cbz w0, 1b\n"
        "mov w0, wzr\n"
#elif defined(__riscv)
        ".cfi_escape 0x0f, 2, 0x72, 0\n" /* breg2 0 */
        "la t0, odd_turns_end\n"
        "1: lw t1, 0(t0)\n"
        "beqz t1, 1b\n"
        "li a0, 0\n"
#endif
        "ret\n"
        ".cfi_endproc\n"
        ".size turn_oddly, . - turn_oddly\n"
        ".popsection\n");

static volatile bool found;

static int find_oddly(void *unused, void **value)
{
    int numbers[2] = { 1, 0 };
    size_t count = 2;
    found = lfind(numbers, numbers, &count, sizeof *numbers, turn_oddly) != NULL;
    return turn_in_a_task(unused, value);
}

static void *end_odd_turns(void *unused)
{
    usleep(60000); /* the deadline is past */
    atomic_store(&odd_turns_end, 1);
    return unused;
}

TEST(a_function_that_libc_has_called_and_only_libgcc_can_walk_is_not_left)
{
    for (int i = 0; i < 3; i++) {
        pthread_t ender;
        stint_outcome outcome;
        found = false;
        atomic_store(&odd_turns_end, 0);
        assert_int_equal(pthread_create(&ender, NULL, end_odd_turns, NULL), 0);
        assert_int_equal(stint_run(find_oddly, NULL, &preemptible, &outcome), 0);
        pthread_join(ender, NULL);
        assert_int_equal(outcome.reason, STINT_REASON_DEADLINE);
        assert_true(found);
    }
}

TEST_MAIN()
