/* SPDX-License-Identifier: MIT
 *
 * Which function each hook is: the one place that knows it (alloc/base/hooks.h). To add one: a line there, which says
 * what is to be done, and one here. */
#include "alloc/base/hooks.h"

#include "alloc/charge/allocate.h"
#include "alloc/interrupt/guard.h"
#include "alloc/interrupt/hook.h"
#include "alloc/interrupt/interrupt.h"
#include "alloc/interrupt/override_cxx.h"
#include "alloc/interrupt/unwind.h"
#include "alloc/profile/followed.h"
#include "alloc/profile/memprof.h"
#include "alloc/profile/sample.h"
#include "alloc/report/report.h"
#include "alloc/report/where.h"
#include "alloc/scope/scope.h"
#include "alloc/scope/share.h"
#include "executor/pool/pools.h"

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
    .wake_idle = sti_pools_wake_idle,
};
