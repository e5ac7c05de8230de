/* SPDX-License-Identifier: MIT
 *
 * Double frees, and frees of pointers that are not blocks: debug mode names their task and ends the process; without
 * debug mode no process spins. */
#include <malloc.h>
#include <sys/mman.h>

#include "support.h"

/* --- The faults. Each is committed in a process of its own, which is this program again: debug mode is asked for at
 * the start. --- */

static void *volatile taken; /* no compiler follows it, to warn of what this file is about */
static int in_static[8];

static void let_go(void *block)
{
    taken = block;
    free(taken);
}

static void free_twice(void)
{
    void *block = malloc(100);
    let_go(block);
    let_go(block);
}

/* Other blocks have been made and freed since. */
static void free_twice_later(void)
{
    void *block = malloc(100);
    void *other = malloc(100);
    let_go(block);
    let_go(other);
    let_go(malloc(5000));
    let_go(block);
}

static void free_twice_large(void)
{
    void *block = malloc((size_t)3 << 20);
    let_go(block);
    let_go(block);
}

static void free_inside(void)
{
    let_go((char *)malloc(100) + 8);
}

static void free_of_stack(void)
{
    int on_stack[8];
    let_go(on_stack);
}

static void free_of_static(void)
{
    let_go(in_static);
}

/* A block that was made without malloc, as libc makes some before the library takes malloc's place. */
static void free_of_mapping(void)
{
    char *pages = mmap(NULL, (size_t)1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, (off_t)0);
    let_go(pages + 16);
}

static void resize_freed(void)
{
    void *block = malloc(100);
    let_go(block);
    taken = block;
    taken = realloc(taken, 300);
}

/* It would not even have to move. */
static void resize_freed_in_place(void)
{
    void *block = malloc(100);
    let_go(block);
    taken = block;
    taken = realloc(taken, 90);
}

static int leave_and_fail(void *arg, void **value)
{
    (void)value;
    *(void **)arg = malloc(100);
    return EIO;
}

static void free_rolled_back(void)
{
    void *block = NULL;
    stint_outcome outcome;
    stint_options options = STINT_OPTIONS_INIT;
    options.name = "failed";
    stint_roots_set_scan(false);
    if (stint_run(leave_and_fail, &block, &options, &outcome) == 0)
        let_go(block);
}

static const struct fault {
    const char *name;
    void (*commit)(void);
    const char *told;
    const char *stack; /* that is told, too */
} faults[] = {
    { "twice", free_twice, "which has been freed", "freed before by task parse" },
    { "twice later", free_twice_later, "which has been freed", "freed before by task parse" },
    { "twice large", free_twice_large, "which has been freed", "freed before by task parse" },
    { "inside", free_inside, "which lies inside a block", "allocated by task parse" },
    { "stack", free_of_stack, "which is no block of malloc's", "freed now by task parse" },
    { "static", free_of_static, "which is no block of malloc's", "freed now by task parse" },
    { "mapping", free_of_mapping, "which is no block of malloc's", "freed now by task parse" },
    { "resized", resize_freed, "which has been freed", "freed before by task parse" },
    { "resized in place", resize_freed_in_place, "which has been freed", "freed before by task parse" },
    { "rolled back", free_rolled_back, "which was rolled back with its task", "allocated by task failed" },
};

#define FAULTS (sizeof faults / sizeof *faults)

static int commit_in_task(void *fault, void **value)
{
    (void)value;
    ((const struct fault *)fault)->commit();
    return 0;
}

/* Uses each broken size again, then ends the thread and the process. */
static void *use_the_heap(void *unused)
{
    void *blocks[300];
    for (size_t size = 16; size < 8192; size *= 2) {
        for (size_t i = 0; i < 300; i++)
            blocks[i] = malloc(size + 4);
        for (size_t i = 0; i < 300; i += 2)
            free(blocks[i]);
    }
    return unused;
}

static void go_on(void)
{
    pthread_t thread;
    use_the_heap(NULL);
    if (pthread_create(&thread, NULL, use_the_heap, NULL) == 0)
        pthread_join(thread, NULL);
    malloc_trim(0);
}

__attribute__((constructor)) static void commit(void)
{
    const char *number = getenv("HEAP_FAULT");
    if (number == NULL)
        return;
    const struct fault *fault = &faults[atoi(number)];
    stint_outcome outcome;
    stint_options options = STINT_OPTIONS_INIT;
    options.name = "parse";
    alarm(20);
    if (getenv("OUTSIDE") != NULL)
        fault->commit();
    else
        stint_run(commit_in_task, (void *)(uintptr_t)fault, &options, &outcome);
    go_on();
    exit(0);
}

/* --- Their ends --- */

#define TOLD_SIZE 16384

/* Returns how the process ended, and its standard error. */
static int run(size_t number, const char *debug, bool outside, char *told)
{
    char digits[16];
    int ends[2];
    int status = 0;
    size_t length = 0;
    snprintf(digits, sizeof digits, "%zu", number);
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        setenv("HEAP_FAULT", digits, 1);
        setenv("STINT_DEBUG", debug, 1);
        if (outside)
            setenv("OUTSIDE", "1", 1);
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        execl("/proc/self/exe", "heap_faults", (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    ssize_t got;
    while ((got = read(ends[0], told + length, TOLD_SIZE - 1 - length)) > 0)
        length += (size_t)got;
    told[length] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void assert_told(const char *told, const char *what)
{
    if (strstr(told, what) == NULL)
        fail_msg("%s is not told in:\n%s", what, told);
}

TEST(debug_mode_tells_of_each_fault_and_ends_the_process)
{
    static char told[TOLD_SIZE];
    for (size_t i = 0; i < FAULTS; i++) {
        int status = run(i, "1", false, told);
        print_message("%s:\n%s", faults[i].name, told);
        assert_told(told, faults[i].told);
        assert_told(told, faults[i].stack);
        assert_told(told, "heap_faults(");
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    }
}

TEST(debug_mode_tells_of_faults_outside_of_tasks)
{
    static char told[TOLD_SIZE];
    for (size_t i = 0; i < FAULTS; i++) {
        int status = run(i, "1", true, told);
        assert_told(told, faults[i].told);
        assert_told(told, "task (none): frees");
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    }
}

/* Before 3.7 mimalloc's walks of a circle have no end. */
TEST(no_fault_makes_a_process_spin)
{
    if (stint_backend_version() < 30700)
        skip_because("mimalloc is older than 3.7");
    static char told[TOLD_SIZE];
    for (size_t i = 0; i < 2 * FAULTS; i++) {
        int status = run(i / 2, "0", i % 2 == 1, told);
        assert_false(WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM);
        assert_false(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    }
}

TEST_MAIN()
