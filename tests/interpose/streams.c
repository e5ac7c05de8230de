/* SPDX-License-Identifier: MIT
 *
 * A stream that a rolled-back task left open writes into no other memory: not into the task's former block or
 * variables, nor into the file. */
#include "support.h"

#include <dirent.h>
#include <sys/stat.h>
#include <wchar.h>

enum kind { FIXED, GROWING, WIDE, KINDS };

static int write_and_fail(void *arg, void **value)
{
    char *block = NULL;
    wchar_t *wide = NULL;
    size_t size = 0;
    (void)value;
    switch (*(enum kind *)arg) {
    case FIXED:
        fputs("written by the dead task", fmemopen(malloc(4096), 4096, "w"));
        break;
    case GROWING:
        fputs("written by the dead task", open_memstream(&block, &size));
        break;
    default:
        fputws(L"written by the dead task", open_wmemstream(&wide, &size));
    }
    while (*(enum kind *)arg != KINDS)
        keep(malloc(1000));
    return 0;
}

/* The frame lies where the dead task's was. */
static int count_changes(void *unused, void **value)
{
    static unsigned char *blocks[200];
    volatile unsigned char frame[16384];
    int changed = 0;
    (void)unused;
    (void)value;
    for (size_t i = 0; i < sizeof frame; i++)
        frame[i] = 0xaa;
    for (int i = 0; i < 200; i++)
        blocks[i] = memset(malloc(4096), 0xaa, 4096);
    fflush(NULL);
    for (int i = 0; i < 200; i++) {
        for (int k = 0; k < 4096; k++)
            changed += blocks[i][k] != 0xaa;
        free(blocks[i]);
    }
    for (size_t i = 0; i < sizeof frame; i++)
        changed += frame[i] != 0xaa;
    return changed;
}

TEST(a_later_flush_changes_nothing_of_another_task)
{
    for (enum kind kind = FIXED; kind < KINDS; kind++) {
        for (stint_on_interrupt mode = STINT_JUMP; mode <= STINT_UNWIND; mode += STINT_UNWIND - STINT_JUMP) {
            stint_options options = { .size = sizeof(stint_options), .on_interrupt = mode };
            options.budget.memory = MIB;
            stint_outcome outcome = run_task(write_and_fail, &kind, &options);
            assert_int_equal(outcome.reason, STINT_REASON_MEMORY_LIMIT);
            assert_ok(run_task(count_changes, NULL, NULL));
        }
    }
}

static FILE *volatile held;

static int write_and_leave_held(void *arg, void **value)
{
    char *block = NULL;
    size_t size = 0;
    (void)value;
    held = *(enum kind *)arg == FIXED ? fmemopen(malloc(4096), 4096, "w") : open_memstream(&block, &size);
    fputs("written by the dead task", held);
    return EIO;
}

TEST(nor_does_one_that_a_variable_keeps_open)
{
    leaves_records(); /* where that stream writes from now on */
    for (enum kind kind = FIXED; kind < WIDE; kind++) {
        run_task(write_and_leave_held, &kind, NULL);
        assert_ok(run_task(count_changes, NULL, NULL));
        held = NULL;
    }
}

static int write_to_file(void *path, void **value)
{
    (void)value;
    FILE *file = fopen(path, "w");
    fputs("flushed", file);
    fflush(file);
    fputs("unwritten", file);
    return EIO;
}

TEST(what_was_not_written_yet_goes_with_the_task)
{
    char path[] = "/tmp/stint-streams-XXXXXX";
    int descriptor = mkstemp(path);
    run_task(write_to_file, path, NULL);
    fflush(NULL);
    struct stat status;
    assert_int_equal(fstat(descriptor, &status), 0);
    assert_int_equal(status.st_size, strlen("flushed"));
    close(descriptor);
    unlink(path);
}

static int open_around(void *descriptor, void **value)
{
    (void)value;
    return fdopen(*(int *)descriptor, "r") != NULL ? EIO : errno;
}

static int open_directory_around(void *descriptor, void **value)
{
    (void)value;
    return fdopendir(*(int *)descriptor) != NULL ? EIO : errno;
}

TEST(a_descriptor_that_was_opened_by_other_means_stays_open)
{
    int descriptor = open("/etc/passwd", O_RDONLY);
    stint_outcome outcome = run_task(open_around, &descriptor, NULL);
    assert_int_equal(outcome.error, EIO);
    char byte;
    assert_int_equal(read(descriptor, &byte, 1), 1);
    close(descriptor);
    descriptor = open("/", O_RDONLY | O_DIRECTORY);
    assert_int_equal(stint_roots_set_scan(STINT_ROOT_SCAN_NEVER), 0); /* no root keeps the directory open */
    outcome = run_task(open_directory_around, &descriptor, NULL);
    assert_int_equal(stint_roots_set_scan(STINT_ROOT_SCAN_ALWAYS), 0);
    assert_int_equal(outcome.error, EIO);
    assert_int_equal(close(descriptor), 0);
}

/* --- Blocks that a stream makes --- */

struct making {
    char *block; /* not freed */
    size_t size;
    int error;
};

static int make_by_stream(void *arg, void **value)
{
    struct making *making = arg;
    (void)value;
    FILE *stream = open_memstream(&making->block, &making->size);
    fprintf(stream, "%0200000d", 1);
    fflush(stream);
    if (making->size != 200000 || strlen(making->block) != 200000)
        return EINVAL;
    fclose(stream);
    if (making->size != 200000 || strlen(making->block) != 200000)
        return EINVAL;
    return making->error;
}

TEST(the_block_of_a_closed_stream_is_the_task_s)
{
    struct making making = { .error = 0 };
    assert_ok(run_task(make_by_stream, &making, NULL));
    assert_int_equal(strlen(making.block), 200000);
    free(making.block);
    making.error = EIO;
    size_t before = resident();
    for (int i = 0; i < 300; i++) {
        stint_outcome outcome = run_task(make_by_stream, &making, NULL);
        assert_int_equal(outcome.error, EIO);
    }
    assert_in_range(resident(), 0, before + 16 * MIB);
}

static int make_in_inner_scope(void *arg, void **value)
{
    stint_outcome outcome;
    (void)value;
    struct making *making = arg;
    stint_run(make_by_stream, making, NULL, &outcome);
    return outcome.status == STINT_OK && strlen(making->block) == 200000 ? 0 : EINVAL;
}

TEST(the_block_may_come_from_an_inner_scope)
{
    struct making making = { .error = 0 };
    assert_ok(run_task(make_in_inner_scope, &making, NULL));
    assert_int_equal(strlen(making.block), 200000);
    free(making.block);
}

/* --- Others' functions and threads --- */

static int closed;

static int note_closed(void *cookie)
{
    closed += *(int *)cookie;
    return 0;
}

static int open_own(void *unused, void **value)
{
    (void)unused;
    (void)value;
    int *cookie = malloc(sizeof *cookie);
    *cookie = 1;
    keep(fopencookie(cookie, "r", (cookie_io_functions_t){ .close = note_closed }));
    return EIO;
}

TEST(the_close_of_a_stream_of_the_task_s_own_is_called)
{
    closed = 0;
    run_task(open_own, NULL, NULL);
    assert_int_equal(closed, 1);
}

static void *lock_for_ever(void *stream)
{
    flockfile(stream);
    return NULL;
}

static FILE **locked;

static int lock_elsewhere(void *unused, void **value)
{
    (void)unused;
    (void)value;
    pthread_t thread;
    *locked = fopen("/etc/passwd", "r");
    pthread_create(&thread, NULL, lock_for_ever, *locked);
    pthread_join(thread, NULL);
    return EIO;
}

TEST(one_that_another_thread_has_locked_is_left)
{
    locked = malloc(sizeof *locked);
    run_task(lock_elsewhere, NULL, NULL);
    assert_int_not_equal(fgetc_unlocked(*locked), EOF);
    free(locked);
}

static int open_again(void *unused, void **value)
{
    (void)unused;
    (void)value;
    return freopen("/etc/group", "r", fopen("/etc/passwd", "r")) != NULL ? EIO : 0;
}

TEST(descriptors_do_not_add_up)
{
    int before = dup(0);
    close(before);
    for (int i = 0; i < 100; i++)
        run_task(open_again, NULL, NULL);
    int after = dup(0);
    close(after);
    assert_in_range(after, 0, before); /* one of the last test may be closed only now */
}

int main(void)
{
    int failed = run_all_tests(NULL, NULL);
    fflush(stdout);
    _exit(failed); /* later versions of libc wait at exit for a stream that a thread keeps locked */
}
