/* SPDX-License-Identifier: MIT
 *
 * The public declarations of stint 0.1.0, as tests/abi/abi.py froze them at its release. Never changed. */
/* clang-format off */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#define STINT_STINT_H
#define STINT_ACCOUNT_H
#define STINT_API_H
#define STINT_API __attribute__((visibility("default")))
#define STINT_BEGIN_DECLS
#define STINT_END_DECLS
#define STINT_SIZED_INIT_(type) { .size = sizeof(type) }
#define STINT_TASK_H
typedef struct stint_token stint_token;
typedef struct stint_account stint_account;
typedef struct stint_context stint_context;
typedef struct stint_completions stint_completions;
typedef int stint_fn(void *arg, void **value);
typedef struct stint_budget {
    size_t allocation;
    size_t memory;
    uint64_t wall_ns;
    uint64_t cpu_ns;
    uint64_t run_ns;
} stint_budget;
typedef enum stint_on_interrupt {
    STINT_JUMP = 0,
    STINT_FAIL = 1,
    STINT_UNWIND = 2,
} stint_on_interrupt;
typedef enum stint_priority {
    STINT_PRIORITY_NORMAL = 0,
    STINT_PRIORITY_HIGH,
    STINT_PRIORITY_LOW,
} stint_priority;
typedef enum stint_report_level {
    STINT_REPORT_NONE = 0,
    STINT_REPORT_STACK,
    STINT_REPORT_HEAP,
} stint_report_level;
typedef struct stint_options {
    size_t size;
    stint_budget budget;
    stint_token *token;
    stint_on_interrupt on_interrupt;
    stint_report_level report;
    size_t grace;
    const char *name;
   _Bool
        preemptible;
    stint_account *account;
    stint_priority priority;
   _Bool
        wipe;
    unsigned flags;
   _Bool
        discard;
    stint_context *context;
    stint_completions *completions;
    void *data;
    double sample_rate;
    unsigned warn;
} stint_options;
#define STINT_OPTIONS_INIT STINT_SIZED_INIT_(stint_options)
#define STINT_UNTIMED 2U
#define STINT_COMMIT 4U
#define STINT_ALLOW_UNMETERED 1U
typedef enum stint_status {
    STINT_OK = 0,
    STINT_ERROR,
    STINT_CANCELLED,
} stint_status;
typedef enum stint_reason {
    STINT_REASON_NONE = 0,
    STINT_REASON_FAILED,
    STINT_REASON_ALLOCATION_LIMIT,
    STINT_REASON_MEMORY_LIMIT,
    STINT_REASON_DEADLINE,
    STINT_REASON_ACCOUNT,
    STINT_REASON_GLOBAL_MEMORY_LIMIT,
    STINT_REASON_TOKEN,
    STINT_REASON_SHUTDOWN,
    STINT_REASON_OUTER,
    STINT_REASON_TRACKER,
    STINT_REASON_CPU,
    STINT_REASON_EXPIRED,
    STINT_REASON_EXCEPTION,
    STINT_REASON_STACK,
    STINT_REASON_CRASH,
    STINT_REASON_EXIT,
    STINT_REASON_KILLED,
    STINT_REASON_BROKEN,
} stint_reason;
typedef struct stint_usage {
    uint64_t allocated;
    uint64_t peak;
    uint64_t samples;
    uint64_t deferred;
    uint64_t kept;
    uint64_t wall_ns;
    uint64_t queued_ns;
    uint64_t cpu_ns;
    uint64_t committed;
} stint_usage;
#define STINT_MESSAGE_SIZE 96
typedef struct stint_outcome {
    stint_status status;
    stint_reason reason;
    int error;
    void *value;
    stint_usage usage;
    const void *payload;
    size_t payload_size;
    char message[96];
} stint_outcome;
__attribute__((visibility("default"))) const char *stint_status_name(stint_status status);
__attribute__((visibility("default"))) const char *stint_reason_name(stint_reason reason);
__attribute__((visibility("default"))) int stint_run(stint_fn *fn, void *arg, const stint_options *options, stint_outcome *outcome);
__attribute__((visibility("default"))) int stint_fail(int error, const void *payload, size_t size);
__attribute__((visibility("default"))) int stint_usage_now(stint_usage *used, stint_budget *left);
__attribute__((visibility("default"))) const char *stint_task_name(void);
__attribute__((visibility("default"))) void *stint_result_malloc(size_t size);
__attribute__((visibility("default"))) void *stint_result_calloc(size_t count, size_t size);
__attribute__((visibility("default"))) void *stint_result_realloc(void *block, size_t size);
__attribute__((visibility("default"))) char *stint_result_strdup(const char *string);
typedef struct stint_account_limits {
    size_t size;
    size_t allocation;
    size_t memory;
    unsigned running;
    const char *name;
    unsigned weight;
    size_t waiting;
    unsigned warn;
} stint_account_limits;
#define STINT_ACCOUNT_LIMITS_INIT STINT_SIZED_INIT_(stint_account_limits)
__attribute__((visibility("default"))) int stint_account_create(stint_account *parent, const stint_account_limits *limits, stint_account **account);
__attribute__((visibility("default"))) int stint_account_set_limits(stint_account *account, const stint_account_limits *limits);
typedef struct stint_account_usage {
    size_t size;
    uint64_t allocated;
    uint64_t memory;
    unsigned running;
    uint64_t started;
    uint64_t waiting;
} stint_account_usage;
#define STINT_ACCOUNT_USAGE_INIT STINT_SIZED_INIT_(stint_account_usage)
__attribute__((visibility("default"))) int stint_account_read(const stint_account *account, stint_account_usage *usage);
__attribute__((visibility("default"))) const char *stint_account_name(const stint_account *account);
__attribute__((visibility("default"))) stint_account *stint_account_retain(stint_account *account);
__attribute__((visibility("default"))) void stint_account_release(stint_account *account);
#define STINT_FORK_H
typedef struct stint_subtask {
    stint_fn *fn_;
    void *arg_;
    size_t place_;
} stint_subtask;
static inline int stint_fork(stint_subtask *subtask, stint_fn *fn, void *arg);
static inline int stint_join(stint_subtask *subtask, void **value);
__attribute__((visibility("default"))) void stint_fork_drop(stint_subtask *subtask);
#define STINT_DETAIL_FORK_H
#define STINT_FORK_SLOTS_ 4096
#define STINT_FORK_PAYLOAD_ 48
struct stint_fork_slot_ {
    const void *fork;
    void *frame;
    char payload[48];
} __attribute__((aligned(64)));
struct stint_fork_kind_ {
    char even, odd;
    stint_fn *call;
};
#define STINT_FORK_FITS_(argument_type,result_type) (sizeof(argument_type) <= STINT_FORK_PAYLOAD_ && sizeof(result_type) <= STINT_FORK_PAYLOAD_ ? 1 : -1)
struct stint_forks_ {
    size_t depth;
    char line[64 - sizeof(size_t)];
    size_t limit;
    size_t floor;
    char lines[64 - 2 * sizeof(size_t)];
    struct stint_fork_slot_ slots[4096];
} __attribute__((aligned(64)));
#define STINT_FORK_JOINED_ (SIZE_MAX - 1)
#define STINT_FORK_IN_JOIN_ (SIZE_MAX / 2 + 1)
extern __attribute__((visibility("default"))) __thread struct stint_forks_ *stint_thread_forks_ __attribute__((tls_model("initial-exec")));
__attribute__((visibility("default"))) int stint_fork_slow_(stint_subtask *subtask, stint_fn *fn, void *arg);
__attribute__((visibility("default"))) int stint_join_slow_(stint_subtask *subtask, void **value);
__attribute__((visibility("default"))) struct stint_fork_slot_ *stint_fork_slot_slow_(void);
__attribute__((visibility("default"))) size_t stint_fork_push_slow_(const struct stint_fork_slot_ *slot);
struct stint_fork_result_ {
    const void *payload;
    int error;
};
__attribute__((visibility("default"))) struct stint_fork_result_ stint_join_typed_slow_(size_t place, const struct stint_fork_kind_ *kind);
static inline __attribute__((always_inline)) int stint_fork_reaches_(const size_t *word, size_t place)
{
    int reaches;
    __asm__ __volatile__("cmpq\t{%2, %1|%1, %2}" : "=@ccae"(reaches) : "r"(place), "m"(*word));
    return reaches;
}
#define STINT_FORK_CAST_(type,address) ((type)(address))
static inline __attribute__((always_inline)) struct stint_fork_slot_ *stint_fork_at_(size_t place)
{
    return ((struct stint_fork_slot_ *)(place));
}
static inline __attribute__((always_inline)) void stint_fork_push_(struct stint_forks_ *forks, size_t depth)
{
    __atomic_signal_fence(3);
    forks->depth = depth + sizeof(struct stint_fork_slot_);
}
static inline __attribute__((always_inline)) int stint_fork_take_(struct stint_forks_ *forks, size_t place)
{
    if (__builtin_expect(
            forks->depth - sizeof(struct stint_fork_slot_) != place || !stint_fork_reaches_(&forks->floor, place), 0))
        return 0;
    __asm__("" : "+r"(place));
    forks->depth = place;
    return 1;
}
static inline __attribute__((always_inline)) void *stint_fork_frame_(void)
{
    void *frame;
    __asm__("movq\t{%%rsp, %0|%0, rsp}" : "=r"(frame));
    return frame;
}
static inline __attribute__((always_inline)) void stint_fork_write_(struct stint_fork_slot_ *slot,
                                                                    const struct stint_fork_kind_ *kind, void *frame,
                                                                    const void *argument, size_t size)
{
    slot->fork = &kind->odd;
    slot->frame = frame;
    memcpy(slot->payload, argument, size);
}
static inline int stint_fork(stint_subtask *subtask, stint_fn *fn, void *arg)
{
    struct stint_forks_ *forks = stint_thread_forks_;
    if (__builtin_expect(subtask ==
                                   ((void *)0)
                                        || fn ==
                                                 ((void *)0)
                                                     , 0))
        return
              22
                    ;
    size_t depth = forks->depth;
    if (__builtin_expect(stint_fork_reaches_(&forks->limit, depth), 0))
        return stint_fork_slow_(subtask, fn, arg);
    subtask->fn_ = fn;
    subtask->arg_ = arg;
    subtask->place_ = depth;
    stint_fork_at_(depth)->fork = subtask;
    stint_fork_push_(forks, depth);
    return 0;
}
static inline int stint_join(stint_subtask *subtask, void **value)
{
    void *unused;
    if (__builtin_expect(subtask ==
                                   ((void *)0)
                                        || !stint_fork_take_(stint_thread_forks_, subtask->place_), 0))
        return stint_join_slow_(subtask, value);
    subtask->place_ = (
                     (18446744073709551615UL)
                     - 1);
    if (value ==
                ((void *)0)
                    )
        value = &unused;
    *value =
            ((void *)0)
                ;
    return subtask->fn_(subtask->arg_, value);
}
typedef struct stint_forks_ *stint_here;
static inline stint_here stint_here_current(void)
{
    return stint_thread_forks_;
}
#define STINT_FORKABLE(name,result_type,argument_type) struct name ##_subtask { size_t place_; argument_type argument_; }; typedef char name ##_fits_[STINT_FORK_FITS_(argument_type, result_type)]; static result_type name(stint_here here, argument_type argument); static inline int name ##_call(void *payload, void **value) { argument_type argument; (void)value; memcpy(&argument, payload, sizeof argument); result_type result = name(stint_here_current(), argument); memcpy(payload, &result, sizeof result); return 0; } static const struct stint_fork_kind_ name ##_kind = { 0, 0, name ##_call }; static inline void name ##_fork_from_(stint_here here, struct name ##_subtask *subtask, argument_type argument, void *frame) { size_t depth = here->depth; subtask->place_ = depth; subtask->argument_ = argument; if (__builtin_expect(stint_fork_reaches_(&here->limit, depth), 0)) { struct stint_fork_slot_ *slot = stint_fork_slot_slow_(); if (slot != NULL) stint_fork_write_(slot, &name ##_kind, frame, &argument, sizeof argument); subtask->place_ = stint_fork_push_slow_(slot); return; } stint_fork_write_(stint_fork_at_(depth), &name ##_kind, frame, &argument, sizeof argument); stint_fork_push_(here, depth); } static inline __attribute__((always_inline)) int name ##_fork(stint_here here, struct name ##_subtask *subtask, argument_type argument) { name ##_fork_from_(here, subtask, argument, stint_fork_frame_()); return 0; } static inline int name ##_join(stint_here here, struct name ##_subtask *subtask, result_type *result) { size_t place = subtask->place_; subtask->place_ = STINT_FORK_JOINED_; if (__builtin_expect(!stint_fork_take_(here, place), 0)) { struct stint_fork_result_ there = stint_join_typed_slow_(place, &name ##_kind); if (there.payload != NULL) { memcpy(result, there.payload, sizeof *result); return there.error; } } *result = name(here, subtask->argument_); return 0; }
typedef int stint_range_fn(size_t begin, size_t end, void *arg);
__attribute__((visibility("default"))) int stint_for(size_t begin, size_t end, size_t grain, stint_range_fn *fn, void *arg);
typedef int stint_accumulate_fn(size_t begin, size_t end, void *accumulator, void *arg);
typedef void stint_combine_fn(void *accumulator, const void *behind, void *arg);
typedef struct stint_reduction {
    size_t size;
    const void *neutral;
    stint_accumulate_fn *accumulate;
    stint_combine_fn *combine;
} stint_reduction;
__attribute__((visibility("default"))) int stint_reduce(size_t begin, size_t end, size_t grain, const stint_reduction *reduction, void *arg,
                           void *result);
typedef int stint_compare_fn(const void *a, const void *b, void *arg);
__attribute__((visibility("default"))) int stint_sort(void *base, size_t count, size_t size, stint_compare_fn *compare, void *arg);
#define STINT_FUTURE_H
typedef struct stint_future stint_future;
typedef struct stint_pool stint_pool;
__attribute__((visibility("default")))
         _Bool
              stint_future_is_ready(const stint_future *future);
__attribute__((visibility("default"))) int stint_future_wait(stint_future *future, stint_outcome *outcome);
__attribute__((visibility("default"))) int stint_future_wait_for(stint_future *future, uint64_t timeout_ns, stint_outcome *outcome);
__attribute__((visibility("default"))) void stint_future_cancel(stint_future *future);
__attribute__((visibility("default"))) int stint_future_set_budget(stint_future *future, const stint_budget *budget);
__attribute__((visibility("default"))) int stint_future_usage(stint_future *future, stint_usage *usage);
__attribute__((visibility("default"))) stint_future *stint_future_retain(stint_future *future);
__attribute__((visibility("default"))) void stint_future_release(stint_future *future);
typedef void stint_callback_fn(stint_future *future, const stint_outcome *outcome, void *arg);
__attribute__((visibility("default"))) int stint_future_then(stint_future *future, stint_callback_fn *callback, void *arg);
typedef struct stint_continuation {
    void *fields_[4];
    stint_callback_fn *callback_;
    void *arg_;
} stint_continuation;
__attribute__((visibility("default"))) int stint_future_add_continuation(stint_future *future, stint_continuation *continuation,
                                            stint_callback_fn *callback, void *arg);
__attribute__((visibility("default"))) int stint_future_remove_continuation(stint_future *future, stint_continuation *continuation);
__attribute__((visibility("default"))) int stint_when_all(stint_future *const *futures, size_t count, stint_future **all);
__attribute__((visibility("default"))) int stint_when_any(stint_future *const *futures, size_t count, stint_future **any);
__attribute__((visibility("default"))) int stint_when_any_index(const stint_future *any, size_t *index);
typedef struct stint_completion {
    stint_future *future;
    void *data;
    stint_outcome outcome;
} stint_completion;
__attribute__((visibility("default"))) int stint_completions_create(stint_completions **queue);
__attribute__((visibility("default"))) int stint_completions_add(stint_completions *queue, stint_future *future, void *data);
__attribute__((visibility("default"))) int stint_completions_fd(const stint_completions *queue);
__attribute__((visibility("default"))) int stint_completions_read(stint_completions *queue, stint_completion *array, size_t max, size_t *count);
__attribute__((visibility("default"))) void stint_completions_destroy(stint_completions *queue);
typedef struct stint_group stint_group;
__attribute__((visibility("default"))) int stint_group_create(stint_group **group);
__attribute__((visibility("default"))) int stint_group_submit(stint_group *group, stint_pool *pool, stint_fn *fn, void *arg,
                                 const stint_options *options);
__attribute__((visibility("default"))) int stint_group_add(stint_group *group, stint_future *future);
__attribute__((visibility("default"))) int stint_group_wait(stint_group *group, stint_outcome *outcome);
__attribute__((visibility("default"))) int stint_group_wait_for(stint_group *group, uint64_t timeout_ns, stint_outcome *outcome);
__attribute__((visibility("default"))) int stint_group_when_idle(stint_group *group, stint_future **idle);
__attribute__((visibility("default"))) void stint_group_cancel(stint_group *group);
__attribute__((visibility("default"))) void stint_group_release(stint_group *group);
#define STINT_INTERRUPT_H
__attribute__((visibility("default"))) void stint_checkpoint(void);
__attribute__((visibility("default"))) void stint_mask(void);
__attribute__((visibility("default"))) void stint_unmask(void);
__attribute__((visibility("default")))
         _Bool
              stint_is_interrupted(void);
__attribute__((visibility("default")))
         _Bool
              stint_finish(void);
typedef enum stint_deferral {
    STINT_DEFERRAL_NONE = 0,
    STINT_DEFERRAL_MASK,
    STINT_DEFERRAL_LOCK,
    STINT_DEFERRAL_THROW,
    STINT_DEFERRAL_ONCE,
    STINT_DEFERRAL_STATIC,
    STINT_DEFERRAL_CATCH,
    STINT_DEFERRAL_FRAME,
} stint_deferral;
__attribute__((visibility("default"))) const char *stint_deferral_name(stint_deferral deferral);
__attribute__((visibility("default"))) int stint_module_allow(const char *name);
__attribute__((visibility("default"))) int stint_module_protect(const char *name);
__attribute__((visibility("default"))) int stint_module_keep(const char *name);
typedef void stint_guard_fn(void *arg);
#define STINT_GUARD(release,arg) STINT_GUARD_COUNTED_(__COUNTER__, release, arg)
typedef struct stint_guard {
    stint_guard_fn *function_;
    void *arg_;
    struct stint_guard *below_;
    uint64_t order_;
    uintptr_t check_;
} stint_guard;
__attribute__((visibility("default"))) void stint_guard_push(stint_guard *guard, stint_guard_fn *release, void *arg);
__attribute__((visibility("default"))) void stint_guard_pop(stint_guard *guard,
                                                  _Bool
                                                       run);
typedef int stint_acquire_fn(void *arg, void **resource);
typedef int stint_use_fn(void *arg, void *resource);
typedef void stint_release_fn(void *arg, void *resource);
__attribute__((visibility("default"))) int stint_with(stint_acquire_fn *acquire, stint_use_fn *use, stint_release_fn *release, void *arg);
#define STINT_DETAIL_GUARD_H
#define STINT_GUARD_COUNTED_(number,release,arg) STINT_GUARD_NAMED_(number, release, arg)
#define STINT_GUARD_NAMED_(number,release,arg) __attribute__((cleanup(stint_guard_end_))) stint_guard stint_guard_ ##number; stint_guard_push(&stint_guard_ ##number, (release), (arg))
static inline void stint_guard_end_(stint_guard *guard)
{
    stint_guard_pop(guard,
                          1
                              );
}
typedef void stint_hook_fn(void *arg);
typedef struct stint_hook {
    stint_guard pushed_;
   _Bool
        fired_;
} stint_hook;
__attribute__((visibility("default"))) int stint_hook_push(stint_hook *hook, stint_hook_fn *function, void *arg);
__attribute__((visibility("default"))) void stint_hook_pop(stint_hook *hook);
typedef struct stint_mutex {
    pthread_mutex_t lock_;
    uintptr_t holder_;
    struct stint_mutex *below_;
    struct stint_mutex **link_;
    uint64_t order_;
    int condition_;
} stint_mutex;
__attribute__((visibility("default"))) int stint_mutex_init(stint_mutex *mutex);
__attribute__((visibility("default"))) int stint_mutex_destroy(stint_mutex *mutex);
__attribute__((visibility("default"))) int stint_mutex_lock(stint_mutex *mutex);
__attribute__((visibility("default"))) int stint_mutex_trylock(stint_mutex *mutex);
__attribute__((visibility("default"))) int stint_mutex_unlock(stint_mutex *mutex);
__attribute__((visibility("default"))) int stint_mutex_consistent(stint_mutex *mutex);
#define STINT_LATER_H
#define STINT_POOL_H
#define STINT_FOREVER UINT64_MAX
typedef struct stint_overdue_report stint_overdue_report;
typedef void stint_overdue_fn(const stint_overdue_report *report, void *arg);
typedef void stint_worker_fn(void *worker_data, unsigned index);
typedef struct stint_pool_options {
    size_t size;
    unsigned workers;
    stint_report_level report;
    size_t queue_capacity;
    const char *name;
   _Bool
        pinned;
    unsigned substitutes;
   _Bool
        hold_near_memory_limit;
    unsigned flags;
    uint64_t overdue_ns;
    stint_overdue_fn *on_overdue;
    void *overdue_arg;
    stint_worker_fn *worker_begins;
    stint_worker_fn *worker_ends;
    void *worker_data;
    size_t stack_size;
} stint_pool_options;
#define STINT_NO_SUBSTITUTES UINT_MAX
#define STINT_POOL_OPTIONS_INIT STINT_SIZED_INIT_(stint_pool_options)
__attribute__((visibility("default"))) int stint_pool_create(const stint_pool_options *options, stint_pool **pool);
__attribute__((visibility("default"))) int stint_submit(stint_pool *pool, stint_fn *fn, void *arg, const stint_options *options,
                           stint_future **future);
__attribute__((visibility("default"))) int stint_submit_wait(stint_pool *pool, stint_fn *fn, void *arg, const stint_options *options,
                                uint64_t timeout_ns, stint_future **future);
typedef enum stint_shutdown {
    STINT_SHUTDOWN_DRAIN = 0,
    STINT_SHUTDOWN_CANCEL,
    STINT_SHUTDOWN_DRAIN_THEN_CANCEL,
} stint_shutdown;
__attribute__((visibility("default"))) int stint_pool_shutdown(stint_pool *pool, stint_shutdown how, uint64_t timeout_ns);
__attribute__((visibility("default"))) int stint_pool_destroy(stint_pool *pool);
__attribute__((visibility("default"))) int stint_pool_destroy_within(stint_pool *pool, uint64_t timeout_ns, unsigned *left);
__attribute__((visibility("default"))) unsigned stint_pool_workers(const stint_pool *pool);
__attribute__((visibility("default"))) stint_pool *stint_pool_current(void);
#define STINT_REASONS_MAX 32
#define STINT_NEGLECT_NS UINT64_C(100000000)
typedef struct stint_pool_statistics {
    size_t size;
    uint64_t outcomes[32];
    size_t queued;
    size_t waiting;
    size_t held_back;
    unsigned running;
    unsigned asleep;
    uint64_t neglected;
    uint64_t longest_neglect_ns;
    unsigned substitutes;
    unsigned substituting;
    uint64_t replaced;
    uint64_t unreplaced;
} stint_pool_statistics;
#define STINT_POOL_STATISTICS_INIT STINT_SIZED_INIT_(stint_pool_statistics)
typedef struct stint_worker_statistics {
    size_t size;
    uint64_t tasks;
    uint64_t steals;
    uint64_t parks;
    size_t queued;
} stint_worker_statistics;
#define STINT_WORKER_STATISTICS_INIT STINT_SIZED_INIT_(stint_worker_statistics)
__attribute__((visibility("default"))) int stint_pool_read(const stint_pool *pool, stint_pool_statistics *statistics);
__attribute__((visibility("default"))) int stint_pool_read_worker(const stint_pool *pool, unsigned index, stint_worker_statistics *statistics);
#define STINT_NAME_SIZE 64
typedef struct stint_task_view {
    const char *name;
    const char *account;
    stint_priority priority;
   _Bool
        running;
    unsigned worker;
    uint64_t age_ns;
    uint64_t run_ns;
    size_t memory;
    stint_budget limits;
   _Bool
        overdue;
    stint_deferral deferral;
} stint_task_view;
typedef
       _Bool
            stint_visit_fn(const stint_task_view *view, void *arg);
__attribute__((visibility("default"))) int stint_pool_visit(stint_pool *pool, stint_visit_fn *visit, void *arg);
struct stint_overdue_report {
    const stint_task_view *task;
    uint64_t late_ns;
   _Bool
        replaced;
};
__attribute__((visibility("default"))) void stint_blocking_begin(void);
__attribute__((visibility("default"))) void stint_blocking_end(void);
__attribute__((visibility("default"))) int stint_submit_at(stint_pool *pool, stint_fn *fn, void *arg, const stint_options *options,
                              uint64_t start_ns, stint_future **future);
__attribute__((visibility("default"))) int stint_submit_every(stint_pool *pool, stint_fn *fn, void *arg, const stint_options *options,
                                 uint64_t start_ns, uint64_t period_ns, stint_future **future);
typedef int stint_next_fn(const stint_outcome *outcome, void *arg, void **value);
__attribute__((visibility("default"))) int stint_future_then_submit(stint_future *future, stint_pool *pool, stint_next_fn *fn, void *arg,
                                       const stint_options *options, stint_future **next);
typedef struct stint_serial stint_serial;
__attribute__((visibility("default"))) int stint_serial_create(stint_pool *pool, size_t max_waiting, stint_serial **serial);
__attribute__((visibility("default"))) int stint_serial_submit(stint_serial *serial, stint_fn *fn, void *arg, const stint_options *options,
                                  stint_future **future);
__attribute__((visibility("default"))) void stint_serial_release(stint_serial *serial);
#define STINT_MEMORY_H
__attribute__((visibility("default"))) void *stint_malloc(size_t size);
__attribute__((visibility("default"))) void *stint_calloc(size_t count, size_t size);
__attribute__((visibility("default"))) void *stint_realloc(void *block, size_t size);
__attribute__((visibility("default"))) void *stint_reallocarray(void *block, size_t count, size_t size);
__attribute__((visibility("default"))) void *stint_aligned_alloc(size_t alignment, size_t size);
__attribute__((visibility("default"))) int stint_posix_memalign(void **block, size_t alignment, size_t size);
__attribute__((visibility("default"))) void stint_free(void *block);
__attribute__((visibility("default"))) size_t stint_malloc_usable_size(const void *block);
__attribute__((visibility("default"))) char *stint_strdup(const char *string);
__attribute__((visibility("default"))) char *stint_strndup(const char *string, size_t length);
__attribute__((visibility("default"))) int stint_malloc_trim(size_t pad);
__attribute__((visibility("default"))) void stint_keep_begin(void);
__attribute__((visibility("default"))) void stint_keep_end(void);
typedef enum stint_root_scan {
    STINT_ROOT_SCAN_ALWAYS = 0,
    STINT_ROOT_SCAN_SAMPLED,
    STINT_ROOT_SCAN_NEVER,
} stint_root_scan;
__attribute__((visibility("default"))) int stint_roots_set_scan(stint_root_scan scan);
typedef struct stint_root {
    const void *address;
    const char *module;
    const char *symbol;
    const char *where;
    uint64_t offset;
    const char *task;
    size_t kept;
    size_t kept_in_all;
   _Bool
        too_much;
} stint_root;
typedef void stint_root_report_fn(const stint_root *root, void *arg);
__attribute__((visibility("default"))) void stint_roots_set_report(stint_root_report_fn *report, void *arg);
__attribute__((visibility("default"))) size_t stint_roots_kept_bytes(void);
__attribute__((visibility("default"))) int stint_global_set_memory_limit(size_t bytes);
#define STINT_MEMORY_LIMIT_OF_CGROUP SIZE_MAX
__attribute__((visibility("default"))) size_t stint_global_memory_limit(void);
__attribute__((visibility("default"))) int stint_global_set_warning(unsigned percent);
typedef struct stint_global_event {
    size_t resident;
    size_t limit;
    const char *task;
    size_t held;
} stint_global_event;
typedef void stint_global_report_fn(const stint_global_event *event, void *arg);
__attribute__((visibility("default"))) void stint_global_set_report(stint_global_report_fn *report, void *arg);
#define STINT_OBSERVE_H
typedef struct stint_report stint_report;
__attribute__((visibility("default"))) int stint_future_report(stint_future *future, stint_report **report);
__attribute__((visibility("default"))) int stint_run_reported(stint_fn *fn, void *arg, const stint_options *options, stint_outcome *outcome,
                                 stint_report **report);
typedef enum stint_report_kind {
    STINT_REPORT_TEXT = 0,
    STINT_REPORT_LINE,
    STINT_REPORT_JSON,
    STINT_REPORT_PPROF,
} stint_report_kind;
__attribute__((visibility("default"))) int stint_report_write(const stint_report *report, int fd, stint_report_kind kind);
__attribute__((visibility("default"))) stint_report *stint_report_retain(stint_report *report);
__attribute__((visibility("default"))) void stint_report_release(stint_report *report);
typedef struct stint_warning {
    stint_reason reason;
    const char *name;
    uint64_t used;
    uint64_t limit;
   _Bool
        memory;
} stint_warning;
typedef void stint_warning_fn(const stint_warning *warning, void *arg);
__attribute__((visibility("default"))) int stint_warnings_set(stint_warning_fn *warn, void *arg);
typedef struct stint_profile_options {
    size_t size;
    double rate;
    size_t interval;
    size_t callstack_depth;
    uint64_t seed;
} stint_profile_options;
#define STINT_PROFILE_OPTIONS_INIT { .size = sizeof(stint_profile_options), .interval = (size_t)512 << 10, .callstack_depth = 64 }
__attribute__((visibility("default"))) int stint_profile_start(const stint_profile_options *options);
__attribute__((visibility("default"))) int stint_profile_stop(void);
typedef struct stint_profile_totals {
    size_t size;
    uint64_t alloc_objects;
    uint64_t alloc_bytes;
    uint64_t inuse_objects;
    uint64_t inuse_bytes;
    uint64_t samples;
    uint64_t lost;
} stint_profile_totals;
#define STINT_PROFILE_TOTALS_INIT STINT_SIZED_INIT_(stint_profile_totals)
__attribute__((visibility("default"))) int stint_profile_read(stint_profile_totals *totals);
typedef enum stint_profile_kind {
    STINT_PROFILE_PPROF = 0,
    STINT_PROFILE_COLLAPSED,
    STINT_PROFILE_COLLAPSED_INUSE,
} stint_profile_kind;
__attribute__((visibility("default"))) int stint_profile_write(int fd, stint_profile_kind kind);
__attribute__((visibility("default"))) int stint_trace_start(int fd);
__attribute__((visibility("default"))) int stint_trace_stop(void);
__attribute__((visibility("default"))) int stint_metrics_write(int fd);
typedef enum stint_memprof_source {
    STINT_MEMPROF_TASK_HEAP = 0,
    STINT_MEMPROF_PROCESS_HEAP,
    STINT_MEMPROF_ALIGNED,
    STINT_MEMPROF_FOREIGN,
} stint_memprof_source;
typedef struct stint_memprof_allocation {
    uint64_t samples;
    size_t size;
    uint64_t charged;
    double interval;
    stint_memprof_source source;
   _Bool
        in_task_heap;
    void *const *callstack;
    size_t callstack_length;
    const char *task;
    const stint_account *account;
} stint_memprof_allocation;
typedef enum stint_memprof_end {
    STINT_MEMPROF_FREED = 0,
    STINT_MEMPROF_ROLLED_BACK,
    STINT_MEMPROF_STOPPED,
} stint_memprof_end;
typedef void *stint_memprof_alloc_fn(const stint_memprof_allocation *allocation, void *arg);
typedef void *stint_memprof_promote_fn(void *metadata, void *arg);
typedef void stint_memprof_dealloc_fn(void *metadata, stint_memprof_end end, void *arg);
typedef struct stint_memprof_tracker {
    stint_memprof_alloc_fn *alloc;
    stint_memprof_promote_fn *promote;
    stint_memprof_dealloc_fn *dealloc;
} stint_memprof_tracker;
#define STINT_MEMPROF_INTERRUPT ((void *)(uintptr_t)-1)
typedef struct stint_memprof_options {
    size_t size;
    double rate;
    size_t interval;
    size_t callstack_depth;
    stint_memprof_tracker tracker;
    void *arg;
    uint64_t seed;
} stint_memprof_options;
#define STINT_MEMPROF_DEPTH_MAX 1024
#define STINT_MEMPROF_OPTIONS_INIT { .size = sizeof(stint_memprof_options), .interval = (size_t)512 << 10, .callstack_depth = 64 }
__attribute__((visibility("default"))) int stint_memprof_start(const stint_memprof_options *options);
__attribute__((visibility("default"))) int stint_memprof_stop(void);
#define STINT_TOKEN_H
__attribute__((visibility("default"))) int stint_token_create(stint_token *parent, stint_token **token);
__attribute__((visibility("default"))) void stint_token_set(stint_token *token);
__attribute__((visibility("default")))
         _Bool
              stint_token_is_set(const stint_token *token);
__attribute__((visibility("default"))) int stint_token_fd(stint_token *token, int *fd);
__attribute__((visibility("default"))) stint_token *stint_token_retain(stint_token *token);
__attribute__((visibility("default"))) void stint_token_release(stint_token *token);
typedef void stint_context_destroy_fn(void *value);
__attribute__((visibility("default"))) int stint_context_create(void *value, stint_context_destroy_fn *destroy, stint_context **context);
__attribute__((visibility("default"))) void *stint_context_value(const stint_context *context);
__attribute__((visibility("default"))) stint_context *stint_context_current(void);
__attribute__((visibility("default"))) stint_context *stint_context_retain(stint_context *context);
__attribute__((visibility("default"))) void stint_context_release(stint_context *context);
#define STINT_WALL_H
typedef struct stint_wall stint_wall;
typedef struct stint_reply stint_reply;
typedef int stint_wall_fn(const void *input, size_t size, stint_reply *reply);
__attribute__((visibility("default"))) int stint_reply_write(stint_reply *reply, const void *bytes, size_t size);
__attribute__((visibility("default"))) void *stint_reply_reserve(stint_reply *reply, size_t size);
__attribute__((visibility("default"))) size_t stint_reply_size(const stint_reply *reply);
__attribute__((visibility("default"))) int stint_reply_fd(const stint_reply *reply, size_t index);
typedef enum stint_wall_sandbox {
    STINT_WALL_CLOSED = 0,
    STINT_WALL_OPEN,
} stint_wall_sandbox;
typedef struct stint_wall_path {
    const char *path;
   _Bool
        writable;
} stint_wall_path;
typedef int stint_wall_setup_fn(void *arg);
typedef int stint_wall_filter_fn(void *filter, void *arg);
typedef struct stint_wall_options {
    size_t size;
    const char *name;
    stint_wall_setup_fn *setup;
    void *setup_arg;
    const char *program;
    char *const *arguments;
    unsigned children;
    unsigned tasks_per_child;
    unsigned spare;
    stint_wall_sandbox sandbox;
    const stint_wall_path *paths;
    size_t path_count;
    stint_wall_filter_fn *filter;
    void *filter_arg;
    const int *fds;
    size_t fd_count;
    size_t input_limit;
    size_t reply_limit;
    size_t memory;
    unsigned descriptors;
    unsigned processes;
    size_t file_size;
    size_t stack;
    const char *cgroup;
    char *message;
    size_t message_size;
    size_t queue_capacity;
    unsigned flags;
} stint_wall_options;
#define STINT_WALL_OPTIONS_INIT STINT_SIZED_INIT_(stint_wall_options)
#define STINT_WALL_REUSED UINT_MAX
__attribute__((visibility("default"))) int stint_wall_create(const stint_wall_options *options, stint_wall **wall);
__attribute__((visibility("default"))) int stint_wall_destroy(stint_wall *wall);
__attribute__((visibility("default"))) int stint_submit_walled(stint_pool *pool, stint_wall *wall, stint_wall_fn *fn, const void *input, size_t size,
                                  const stint_options *options, stint_future **future);
#define STINT_WALL_FDS_MAX 16
typedef struct stint_wall_call {
    size_t size;
    stint_wall_fn *fn;
    const char *entry;
    const void *input;
    size_t input_size;
    const int *fds;
    size_t fd_count;
    uint64_t wait_ns;
} stint_wall_call;
#define STINT_WALL_CALL_INIT STINT_SIZED_INIT_(stint_wall_call)
__attribute__((visibility("default"))) int stint_submit_walled_call(stint_pool *pool, stint_wall *wall, const stint_wall_call *call,
                                       const stint_options *options, stint_future **future);
typedef struct stint_wall_death {
    int signal;
    int code;
    int status;
   _Bool
        known;
    uint64_t address;
    uint64_t instruction;
} stint_wall_death;
typedef struct stint_wall_statistics {
    size_t size;
    uint64_t tasks;
    uint64_t children;
    uint64_t killed;
    uint64_t crashed;
    uint64_t retried;
    unsigned running;
    unsigned spare;
    long template_pid;
} stint_wall_statistics;
#define STINT_WALL_STATISTICS_INIT STINT_SIZED_INIT_(stint_wall_statistics)
__attribute__((visibility("default"))) int stint_wall_read(stint_wall *wall, stint_wall_statistics *statistics);
typedef struct stint_wall_entry {
    const char *name;
    stint_wall_fn *fn;
} stint_wall_entry;
__attribute__((visibility("default"))) int stint_wall_serve(const stint_wall_entry *entries, size_t count);
#define STINT_VERSION_MAJOR 0
#define STINT_VERSION_MINOR 1
#define STINT_VERSION_PATCH 0
#define STINT_VERSION "0.1.0"
__attribute__((visibility("default"))) const char *stint_version(void);
__attribute__((visibility("default"))) int stint_backend_version(void);
__attribute__((visibility("default")))
         _Bool
              stint_malloc_is_overridden(void);
typedef struct stint_link_report {
    size_t size;
   _Bool
        metered;
   _Bool
        locked;
   _Bool
        unwinds;
    const char *function;
    const char *module;
    const char *off;
} stint_link_report;
#define STINT_LINK_REPORT_INIT STINT_SIZED_INIT_(stint_link_report)
__attribute__((visibility("default"))) int stint_link_check(stint_link_report *report);
#define STINT_DETAIL_EXCEPTION_H
__attribute__((visibility("default"))) int stint_fail_thrown_(int error, const char *what);
