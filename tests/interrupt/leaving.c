/* SPDX-License-Identifier: MIT
 *
 * Code that leaves frames without a word to them, or ends its thread: whatever lay in those frames (scopes, guards,
 * masks, hooks, forks) is ended, and nothing of it is looked at again. */
#undef _FORTIFY_SOURCE /* with which glibc ends a program that jumps to another stack */

#include "support.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdatomic.h>
#include <threads.h>
#include <ucontext.h>

static jmp_buf way_out;
static sigjmp_buf way_out_with_mask;
static ucontext_t context_out;
static volatile int came_back;
static int released;
static int acquired;

/* Where the frames that were left had been, other things are written then. */
static __attribute__((noinline)) int use_the_stack(int depth)
{
    char fill[512];
    memset(fill, 0xaa, sizeof fill);
    keep(fill);
    return depth > 0 ? use_the_stack(depth - 1) + fill[3] : fill[5];
}

static void release(void *arg)
{
    (void)arg;
    released++;
}

/* --- How a frame is left ------------------------------------------------------------------------------------------ */

typedef void leave_fn(void);

static void leave_by_longjmp(void)
{
    longjmp(way_out, 1);
}

static void leave_by_siglongjmp(void)
{
    siglongjmp(way_out_with_mask, 1);
}

static void leave_by_setcontext(void)
{
    setcontext(&context_out);
}

static void on_signal(int number)
{
    (void)number;
    siglongjmp(way_out_with_mask, 1);
}

static void leave_by_a_signal_s_handler(void)
{
    raise(SIGUSR1);
}

static leave_fn *const jumps[] = { leave_by_longjmp, leave_by_siglongjmp, leave_by_setcontext,
                                   leave_by_a_signal_s_handler };

#define JUMPS (sizeof jumps / sizeof *jumps)

/* Call function(arg), and come back when it leaves in whatever way. */
static __attribute__((noinline)) void catch_jump(void (*function)(void *arg), void *arg)
{
    came_back = 0;
    getcontext(&context_out);
    if (came_back++ == 0 && _setjmp(way_out) == 0 && sigsetjmp(way_out_with_mask, 1) == 0)
        function(arg);
    use_the_stack(20);
}

/* What is left has to lie in frames of their own: none of these may become part of catch_jump. */

/* --- Inside a task ------------------------------------------------------------------------------------------------ */

static int acquire(void *arg, void **resource)
{
    (void)arg;
    *resource = &acquired;
    acquired++;
    return 0;
}

static int leave_in_use(void *arg, void *resource)
{
    (void)resource;
    (*(leave_fn *const *)arg)();
    return 0;
}

static int leave_in_acquire(void *arg, void **resource)
{
    (void)resource;
    (*(leave_fn *const *)arg)();
    return 0;
}

static int not_used(void *arg, void *resource)
{
    (void)arg;
    (void)resource;
    return 0;
}

static void release_resource(void *arg, void *resource)
{
    (void)arg;
    released += resource == &acquired;
}

static __attribute__((noinline)) void out_of_use(void *arg)
{
    stint_with(acquire, leave_in_use, release_resource, arg);
}

static __attribute__((noinline)) void out_of_acquire(void *arg)
{
    stint_with(leave_in_acquire, not_used, release_resource, arg);
}

static __attribute__((noinline)) void out_of_guards(void *arg)
{
    STINT_GUARD(release, NULL);
    STINT_GUARD(release, NULL);
    (*(leave_fn *const *)arg)();
}

static void wake(void *arg)
{
    (void)arg;
    abort(); /* its frame has gone */
}

static __attribute__((noinline)) void out_of_a_hook(void *arg)
{
    stint_hook hook;
    stint_hook_push(&hook, wake, NULL);
    (*(leave_fn *const *)arg)();
}

static int run_leaving(void *arg, void **value)
{
    (void)value;
    keep(stint_malloc(100000));
    STINT_GUARD(release, NULL);
    (*(leave_fn *const *)arg)();
    return 0;
}

/* On a busy machine the deadline may come before the function leaves: then once more. */
static void run_until_left(stint_fn *function, void *arg, const stint_options *options)
{
    stint_outcome outcome;
    int released_before = released;
    do {
        released = released_before;
    } while (stint_run(function, arg, options, &outcome) == 0 && outcome.reason == STINT_REASON_DEADLINE);
}

static __attribute__((noinline)) void out_of_scopes(void *arg)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.preemptible = true;
    options.budget.wall_ns = 50000000;
    run_until_left(run_leaving, arg, &options);
}

static int nest(void *arg, void **value)
{
    (void)value;
    stint_outcome outcome;
    stint_run(run_leaving, arg, NULL, &outcome);
    return 0;
}

static __attribute__((noinline)) void out_of_nested_scopes(void *arg)
{
    stint_outcome outcome;
    stint_run(nest, arg, NULL, &outcome);
}

/* What is left, and how often the jump releases something. */
static const struct exits {
    void (*function)(void *arg);
    int acquired;
    int released;
} exits[] = {
    { out_of_use, 1, 1 },    { out_of_acquire, 0, 0 }, { out_of_guards, 0, 2 },
    { out_of_a_hook, 0, 0 }, { out_of_scopes, 0, 1 },  { out_of_nested_scopes, 0, 1 },
};

#define EXITS (sizeof exits / sizeof *exits)

struct leaving {
    const struct exits *exit;
    leave_fn *jump;
    bool goes_on;
};

static int leave_and_go_on(void *arg, void **value)
{
    struct leaving *leaving = arg;
    catch_jump(leaving->exit->function, &leaving->jump);
    leaving->goes_on = true;
    for (void **node; (node = stint_malloc(1000)) != NULL; *value = node)
        *node = *value;
    return ENOMEM;
}

static void check(const struct exits *exit, leave_fn *jump, stint_on_interrupt mode)
{
    struct leaving leaving = { .exit = exit, .jump = jump };
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.memory = MIB;
    options.on_interrupt = mode;
    acquired = 0;
    released = 0;
    stint_outcome outcome = run_task(leave_and_go_on, &leaving, &options);
    assert_true(leaving.goes_on);
    assert_outcome(outcome, STINT_ERROR, STINT_REASON_MEMORY_LIMIT, ENOMEM);
    assert_int_equal(outcome.usage.deferred, 0);
    assert_int_equal(acquired, exit->acquired);
    assert_int_equal(released, exit->released);
}

TEST(frames_that_a_jump_leaves_are_ended_and_the_task_goes_on)
{
    if (!stint_malloc_is_overridden())
        skip_because("malloc is not stint's");
    signal(SIGUSR1, on_signal);
    for (unsigned jump = 0; jump < JUMPS; jump++) {
        for (unsigned exit = 0; exit < EXITS; exit++) {
            check(&exits[exit], jumps[jump], STINT_JUMP);
            check(&exits[exit], jumps[jump], STINT_UNWIND);
        }
    }
}

TEST(a_jump_out_of_scopes_leaves_the_thread_in_none)
{
    if (!stint_malloc_is_overridden())
        skip_because("malloc is not stint's");
    stint_account *account;
    assert_int_equal(stint_account_create(NULL, NULL, &account), 0);
    for (unsigned jump = 0; jump < JUMPS; jump++) {
        leave_fn *leave = jumps[jump];
        released = 0;
        catch_jump(out_of_scopes, &leave);
        assert_int_equal(released, 1);
        assert_true(stint_finish()); /* as outside of scopes */
        catch_jump(out_of_nested_scopes, &leave);
        assert_int_equal(released, 2);
        usleep(60000); /* the watch would look at the first one's deadline */
    }
    stint_account_release(account);
}

/* Objects on the target stack stay as they were. */
static int keep_guards(void *arg, void **value)
{
    (void)value;
    stint_guard outer;
    stint_guard_push(&outer, release, NULL);
    leave_fn *leave = *(leave_fn *const *)arg;
    catch_jump(out_of_guards, &leave);
    int released_so_far = released;
    stint_guard_pop(&outer, false);
    return released_so_far;
}

TEST(guards_of_frames_that_stay_are_left_alone)
{
    if (!stint_malloc_is_overridden())
        skip_because("malloc is not stint's");
    for (unsigned jump = 0; jump < JUMPS; jump++) {
        leave_fn *leave = jumps[jump];
        released = 0;
        assert_outcome(run_task(keep_guards, &leave, NULL), STINT_ERROR, STINT_REASON_FAILED, 2);
        assert_int_equal(released, 2);
    }
}

/* A switch to another stack is no way out. */
static jmp_buf on_the_main_stack;
static jmp_buf on_the_other;
static ucontext_t began;
static ucontext_t other;

static void be_a_coroutine(void)
{
    STINT_GUARD(release, NULL);
    if (_setjmp(on_the_other) == 0)
        longjmp(on_the_main_stack, 1);
    longjmp(on_the_main_stack, 2);
}

static int switch_stacks(void *arg, void **value)
{
    (void)value;
    STINT_GUARD(release, NULL);
    getcontext(&other);
    other.uc_stack.ss_sp = arg;
    other.uc_stack.ss_size = 256 * KIB;
    other.uc_link = NULL;
    makecontext(&other, be_a_coroutine, 0);
    volatile int seen = 0;
    int at = _setjmp(on_the_main_stack);
    if (at == 0)
        swapcontext(&began, &other);
    seen = released;
    if (at == 1)
        longjmp(on_the_other, 1);
    return seen == 0 ? 0 : EIO;
}

TEST(a_switch_to_another_stack_ends_nothing)
{
    static char stack[256 << 10] __attribute__((aligned(64))); /* below the thread's */
    released = 0;
    stint_outcome outcome = run_task(switch_stacks, stack, NULL);
    /* The coroutine's guard is still there: that was forgotten. */
    assert_outcome(outcome, STINT_ERROR, STINT_REASON_FAILED, EINVAL);
    assert_int_equal(released, 1);
}

/* --- The end of the thread ---------------------------------------------------------------------------------------- */

static atomic_int reached;

static void exit_by_pthread(void)
{
    pthread_exit(NULL);
}

static void exit_by_thrd(void)
{
    thrd_exit(0);
}

static void be_cancelled(void)
{
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
    pthread_cancel(pthread_self());
    for (;;)
        pause();
}

static leave_fn *const ends[] = { exit_by_pthread, exit_by_thrd, be_cancelled };

#define ENDS (sizeof ends / sizeof *ends)

static void *leave_thread(void *arg)
{
    const struct leaving *leaving = arg;
    leaving->exit->function((void *)(uintptr_t)&leaving->jump);
    atomic_store(&reached, 1);
    return NULL;
}

/* On the stack of the last thread. */
static void *use_a_stack(void *arg)
{
    use_the_stack(100);
    return arg;
}

static const struct exits ended_threads[] = {
    { out_of_use, 1, 1 },
    { out_of_acquire, 0, 0 },
    { out_of_scopes, 0, 0 }, /* whose frames are not unwound */
    { out_of_nested_scopes, 0, 0 },
};

static void run_thread(void *(*function)(void *), void *arg)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, function, arg), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

/* AddressSanitizer takes frames that the end of a thread has unwound for ones that are still there, and then its own
 * for a fault. */
static void skip_under_address_sanitizer(void)
{
#ifdef __SANITIZE_ADDRESS__
    skip_because("AddressSanitizer takes unwound frames for living ones");
#endif
}

TEST(a_thread_that_ends_in_a_scope_takes_it_along)
{
    skip_under_address_sanitizer();
    for (unsigned end = 0; end < ENDS; end++) {
        for (unsigned exit = 0; exit < sizeof ended_threads / sizeof *ended_threads; exit++) {
            struct leaving leaving = { .exit = &ended_threads[exit], .jump = ends[end] };
            released = 0;
            acquired = 0;
            atomic_store(&reached, 0);
            run_thread(leave_thread, &leaving);
            assert_int_equal(atomic_load(&reached), 0);
            assert_int_equal(acquired, ended_threads[exit].acquired);
            assert_int_equal(released, ended_threads[exit].released);
            run_thread(use_a_stack, NULL);
        }
    }
    usleep(60000); /* beyond the deadlines of those that were watched */
    for (int i = 0; i < 3; i++)
        run_thread(use_a_stack, NULL);
}

/* libc unwinds the stack on which the thread ends, and no other. */
static leave_fn *const *on_its_end;

static void end_as_told(void)
{
    (*on_its_end)();
}

static int end_on_another_stack(void *arg, void **value)
{
    (void)value;
    getcontext(&other);
    other.uc_stack.ss_sp = arg;
    other.uc_stack.ss_size = 256 * KIB;
    other.uc_link = NULL;
    makecontext(&other, end_as_told, 0);
    swapcontext(&began, &other);
    return 0;
}

static char other_stack[256 << 10] __attribute__((aligned(64)));

static void *run_to_the_end(void *options)
{
    run_until_left(end_on_another_stack, other_stack, options);
    atomic_store(&reached, 1);
    return NULL;
}

/* A destructor, which libc calls when the frames have gone. */
static void allocate_at_the_end(void *value)
{
    released++;
    for (size_t size = KIB; size < MIB; size *= 2) {
        char *block = keep(malloc(size));
        memset(block, 1, size);
        free(block);
    }
    free(value);
}

static pthread_key_t key_of_the_end;

static void *run_with_a_value(void *options)
{
    pthread_setspecific(key_of_the_end, malloc(KIB));
    return run_to_the_end(options);
}

TEST(a_thread_that_ends_on_another_stack_takes_its_task_along)
{
    skip_under_address_sanitizer();
    if (!stint_malloc_is_overridden())
        skip_because("only a thread that pthread_create of the library's has begun is heard of");
    stint_options options = STINT_OPTIONS_INIT;
    options.account = make_account(NULL);
    options.preemptible = true;
    options.budget.wall_ns = 50000000;
    assert_int_equal(pthread_key_create(&key_of_the_end, allocate_at_the_end), 0);
    atomic_store(&reached, 0);
    released = 0;
    for (int i = 0; i < 3 * (int)ENDS; i++) {
        on_its_end = &ends[i / 3];
        run_thread(run_with_a_value, &options);
        assert_int_equal(usage_of(options.account).running, 0);
        run_thread(use_a_stack, NULL);
    }
    assert_int_equal(released, 3 * ENDS);
    assert_int_equal(atomic_load(&reached), 0);
    stint_account_release(options.account);
    pthread_key_delete(key_of_the_end);
    usleep(60000); /* beyond the deadlines */
}

/* As libc starts threads for itself. */
static void run_thread_of_libc(void *(*function)(void *), void *arg)
{
    int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    pthread_t thread;
    *(void **)&create = dlsym(dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD), "pthread_create");
    assert_int_equal(create(&thread, NULL, function, arg), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

TEST(one_that_nobody_hears_of_takes_nothing_else_along)
{
    skip_under_address_sanitizer();
    leaves_records(); /* the scopes', whose frames have gone unseen */
    atomic_store(&reached, 0);
    for (unsigned end = 0; end < ENDS; end++) {
        on_its_end = &ends[end];
        for (int i = 0; i < 10; i++)
            run_thread_of_libc(run_to_the_end, NULL);
        run_thread(use_a_stack, NULL);
    }
    assert_int_equal(atomic_load(&reached), 0);
}

/* Another thread cancels a thread while its preemptible task sleeps; then the stack is used again. */
static int sleep_on_and_on(void *arg, void **value)
{
    (void)value;
    STINT_GUARD(release, NULL);
    atomic_store(&reached, 1);
    for (;;)
        sleep(*(const unsigned *)arg);
    return 0;
}

static void *run_watched(void *account)
{
    static unsigned second = 1;
    stint_options options = {
        .size = sizeof(stint_options), .preemptible = true, .budget = { .wall_ns = 100000000 }, .account = account
    };
    stint_outcome outcome;
    stint_run(sleep_on_and_on, &second, &options, &outcome);
    return NULL;
}

TEST(a_watched_task_may_be_cancelled_with_its_thread)
{
    skip_under_address_sanitizer();
    stint_account *account;
    assert_int_equal(stint_account_create(NULL, NULL, &account), 0);
    for (int i = 0; i < 3; i++) {
        pthread_t thread;
        atomic_store(&reached, 0);
        assert_int_equal(pthread_create(&thread, NULL, run_watched, account), 0);
        while (!atomic_load(&reached))
            sched_yield();
        pthread_cancel(thread);
        pthread_join(thread, NULL);
        run_thread(use_a_stack, NULL);
    }
    usleep(120000);
    stint_account_usage usage = STINT_ACCOUNT_USAGE_INIT;
    assert_int_equal(stint_account_read(account, &usage), 0);
    assert_int_equal(usage.running, 0);
    stint_account_release(account);
}

/* What is released while the task is unwound may end the thread, too. */
static void end_thread(void *end)
{
    (*(leave_fn *const *)end)();
}

static void end_thread_of_resource(void *end, void *resource)
{
    (void)resource;
    end_thread(end);
}

static stint_token *stops;

static int stop_by_token(void *unused, void *resource)
{
    (void)unused;
    (void)resource;
    stint_token_set(stops);
    stint_checkpoint();
    return EIO;
}

static int stop_in_use(void *end, void **value)
{
    (void)value;
    return stint_with(acquire, stop_by_token, end_thread_of_resource, end);
}

static int stop_with_guard(void *end, void **value)
{
    stint_guard guard;
    stint_guard_push(&guard, end_thread, end);
    return stop_by_token(NULL, value);
}

struct stopped {
    stint_fn *function;
    leave_fn *const *end;
    stint_options options;
};

static void *run_stopped(void *arg)
{
    struct stopped *stopped = arg;
    stint_outcome outcome;
    stint_run(stopped->function, (void *)(uintptr_t)stopped->end, &stopped->options, &outcome);
    atomic_store(&reached, 1);
    return NULL;
}

/* clang has a program abort where a cleanup of C that runs in an unwind is left. */
#if defined(__clang__)
#define CLEANUPS_ABORT true
#else
#define CLEANUPS_ABORT false
#endif

TEST(a_release_that_ends_the_thread_takes_the_task_along_that_is_stopped)
{
    static stint_fn *const functions[] = { stop_in_use, stop_with_guard };
    static const stint_on_interrupt modes[] = { STINT_JUMP, STINT_UNWIND };
    skip_under_address_sanitizer();
    atomic_store(&reached, 0);
    for (unsigned i = 0; i < 4 * ENDS; i++) {
        if (CLEANUPS_ABORT && functions[i % 2] == stop_in_use && modes[i / 2 % 2] == STINT_UNWIND)
            continue;
        struct stopped stopped = { .function = functions[i % 2], .end = &ends[i / 4], .options = STINT_OPTIONS_INIT };
        stopped.options.on_interrupt = modes[i / 2 % 2];
        stopped.options.account = make_account(NULL);
        assert_int_equal(stint_token_create(NULL, &stops), 0);
        stopped.options.token = stops;
        run_thread(run_stopped, &stopped);
        assert_int_equal(usage_of(stopped.options.account).running, 0);
        stint_token_release(stops);
        stint_account_release(stopped.options.account);
        run_thread(use_a_stack, NULL);
    }
    assert_int_equal(atomic_load(&reached), 0);
}

/* --- What a scope that is left gives back, and how --------------------------------------------------------------- */

static int leave_from_a_task(void *arg, void **value)
{
    (void)arg;
    (void)value;
    leave_by_longjmp();
    return 0;
}

static void run_and_leave(void *options)
{
    stint_outcome outcome;
    stint_run(leave_from_a_task, NULL, options, &outcome);
}

static void count_destroyed(void *count)
{
    ++*(int *)count;
}

TEST(a_scope_that_is_left_gives_back_what_its_options_name)
{
    if (!stint_malloc_is_overridden())
        skip_because("malloc is not stint's");
    int destroyed = 0;
    stint_options options = STINT_OPTIONS_INIT;
    options.account = make_account(NULL);
    assert_int_equal(stint_token_create(NULL, &options.token), 0);
    assert_int_equal(stint_context_create(&destroyed, count_destroyed, &options.context), 0);
    catch_jump(run_and_leave, &options);
    assert_int_equal(usage_of(options.account).running, 0);
    stint_account_release(options.account);
    stint_token_release(options.token);
    stint_context_release(options.context);
    assert_int_equal(destroyed, 1);
}

static volatile bool has_finished;
static jmp_buf inside;

static void set_and_look(void *token)
{
    stint_token_set(token);
    stint_checkpoint();
    has_finished = true;
}

static __attribute__((noinline)) void guard_and_jump(void *token)
{
    stint_guard guard;
    stint_guard_push(&guard, set_and_look, token);
    longjmp(inside, 1);
}

static int jump_over_a_guard(void *token, void **value)
{
    (void)value;
    if (_setjmp(inside) == 0)
        guard_and_jump(token);
    use_the_stack(20);
    stint_checkpoint();
    return EIO;
}

TEST(a_guard_of_a_frame_that_is_left_ends_before_an_interrupt)
{
    if (!stint_malloc_is_overridden())
        skip_because("malloc is not stint's");
    stint_options options = STINT_OPTIONS_INIT;
    assert_int_equal(stint_token_create(NULL, &options.token), 0);
    has_finished = false;
    assert_cancelled(run_task(jump_over_a_guard, options.token, &options), STINT_REASON_TOKEN);
    assert_true(has_finished);
    stint_token_release(options.token);
}

TEST_MAIN()
