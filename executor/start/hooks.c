/* SPDX-License-Identifier: MIT
 *
 * Which function each hook is, of the lower layer (alloc/platform/hooks.h) and of the executor
 * (executor/base/hooks.h): the one place that knows it. To add one: a line there, which says what is to be done, and
 * one here. */
#include "alloc/platform/hooks.h"

#include "alloc/interpose/override_cxx.h"
#include "alloc/interrupt/guard.h"
#include "alloc/interrupt/hook.h"
#include "alloc/interrupt/interrupt.h"
#include "alloc/interrupt/unwind.h"
#include "alloc/meter/allocate.h"
#include "alloc/observe/followed.h"
#include "alloc/observe/memprof.h"
#include "alloc/observe/report.h"
#include "alloc/observe/report_where.h"
#include "alloc/observe/sample.h"
#include "alloc/scope/scope.h"
#include "alloc/scope/share.h"
#include "executor/base/hooks.h"
#include "executor/fork/fork.h"
#include "executor/pool/monitor.h"
#include "executor/pool/overdue.h"
#include "executor/pool/pool.h"
#include "executor/pool/pools.h"
#include "executor/pool/shutdown.h"
#include "executor/task/completions.h"
#include "executor/task/compound.h"
#include "executor/worker/deadlock.h"
#include "executor/worker/park.h"
#include "executor/worker/run.h"
#include "executor/worker/substitute.h"
#include "executor/worker/worker.h"

static bool record_charge(size_t size, const void *caller)
{
    return sti_record_charge(size, caller);
}

const struct sti_hooks sti_hooks = {
    .sampling = {
        .join = sti_memprof_join,
        .draw = sti_memprof_draw,
        .draw_again = sti_memprof_draw_again,
        .meter_outside = sti_memprof_meter_outside,
        .made = sti_memprof_made_sampled,
        .free = sti_memprof_free,
        .end_logged = sti_memprof_end_logged,
        .end_rolled_back = sti_memprof_end_single,
        .begin_scope = sti_rate_begin_scope,
        .end_scope = sti_rate_end_scope,
        .end_thread = sti_memprof_end_thread,
    },
    .reporting = {
        .begin = sti_report_note_begin,
        .tripped = sti_report_note_trip,
        .deferred = sti_report_note_deferral,
        .delivered = sti_report_note_delivery,
        .measured = sti_report_note_measurement,
        .kept = sti_report_note_kept,
        .begin_end = sti_report_note_begin_of_end,
        .end = sti_report_note_end,
        .drop = sti_report_free,
    },
    .thread_taken = sti_share_thread_taken,
    .terminated = sti_terminated,
    .terminate_note = sti_terminate_note,
    .at_stack_end = sti_interrupt_at_stack_end,
    .fire_hooks = sti_hook_fire,
    .run_guards = sti_guard_run_all,
    .drop_hooks = sti_hook_drop,
    .unwind_may_begin = sti_unwind_may_begin,
    .unwind_leave = sti_unwind_leave,
    .unwind_give_up = sti_unwind_give_up,
    .unwind_at_boundary = sti_unwind_at_boundary,
    .abandon_scope = sti_scope_abandon,
    .record_charge = record_charge,
    .account_has_slot = sti_pools_offer_slot,
    .account_has_waiting_slot = sti_pools_fill,
    .account_has_fewer_slots = sti_deadlock_look_again,
    .wake_idle = sti_pools_wake_idle,
};

const struct sti_above sti_above = {
    .set_timer = sti_monitor_set,
    .forget_timer = sti_monitor_forget,
    .begin_monitor = sti_monitor_begin,
    .expect_no_completion = sti_completions_expect_no_more,
    .release_compound = sti_compound_release,
    .notify = sti_park_notify,
    .notify_all = sti_park_notify_all,
    .put = sti_worker_put,
    .sleep = sti_sleep,
    .wait = sti_wait,
    .wait_until = sti_wait_until,
    .stir = sti_deadlock_stir,
    .look_again = sti_deadlock_look_again,
    .begin_task = sti_overdue_begin_task,
    .end_task = sti_overdue_end_task,
    .note_neglect = sti_neglect_note,
    .start_substitute = sti_start_substitute,
    .leave_pool = sti_shutdown_leave,
    .begin_forks = sti_fork_begin_thread,
    .end_forks = sti_fork_end_thread,
    .leave_forks = sti_fork_leave_worker,
    .share_forks = sti_fork_share_all,
    .steal_fork = sti_fork_steal,
    .fork_options = sti_fork_options,
    .run_fork = sti_fork_run,
};
