/* SPDX-License-Identifier: MIT
 *
 * What a debugger reads: where the lists of the process begin, and by the types of its fields what lies there. Nothing
 * of the library uses it; scripts/gdb/stint-gdb.py does, in a process that has stopped or a core. The build always
 * compiles this file with debug information, so a release build has what the script needs and not more. */
#include <stddef.h>
#include <stint/pool.h>

#include "alloc/interrupt/hold.h"
#include "alloc/interrupt/token.h"
#include "alloc/meter/account.h"
#include "alloc/platform/scope_state.h"
#include "alloc/platform/thread.h"
#include "executor/base/state.h"
#include "executor/queue/fair_entry.h"
#include "executor/task/compound.h"
#include "executor/task/delays.h"
#include "executor/worker/deadlock.h"
#include "executor/worker/worker.h"
#include "pools.h"

extern const struct sti_debugger {
    _Atomic(struct sti_thread *) *threads;
    stint_pool **pools;
    const bool *debug_is_on;
    const size_t *account_name; /* where in a stint_account its name lies */

    /* NULL and 0, for their types. */
    const struct sti_scope *scope;
    const struct sti_delayed *delayed;
    const struct sti_compound *compound;
    const struct sti_sleeper *sleeper;
    const struct sti_fair_entry *fair_entry;
    const stint_token *token;
    enum sti_task_state task_state;
    enum sti_hold_kind hold_kind;
    stint_reason reason;
    stint_status status;
    stint_deferral deferral;
    stint_on_interrupt on_interrupt;
} sti_debugger;

const struct sti_debugger sti_debugger = {
    .threads = &sti_thread_records,
    .pools = &sti_pools_all,
    .debug_is_on = &sti_debug_is_on,
    .account_name = &sti_account_name_offset,
};
