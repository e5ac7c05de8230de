#!/bin/sh
# SPDX-License-Identifier: MIT
# finds.sh ABI FROZEN INCLUDE: abi.py finds each kind of change that breaks programs, and lets those pass that do not.
set -eu
abi=$1
frozen=$2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# changed WANTED WHAT FILE SCRIPT: the exit status, for headers that sed has changed.
changed() {
    rm -rf "$scratch/include"
    cp -r "$include" "$scratch/include"
    sed -i "$4" "$scratch/include/stint/$3"
    ! cmp -s "$include/stint/$3" "$scratch/include/stint/$3" || {
        echo "$2: nothing was changed"
        exit 1
    }
    sed -i "/STINT_VERSION/s/\"[0-9.]*\"/\"$version\"/" "$scratch/include/stint/stint.h"
    status=0
    "$abi" compare "$frozen" "$scratch/include" >"$scratch/said" 2>&1 || status=$?
    if [ "$status" != "$1" ] || ! grep -q ' differ$' "$scratch/said"; then
        echo "$2: exit status $status"
        cat "$scratch/said"
        exit 1
    fi
}
include=$3
version=999.0.0

changed 1 'a field is gone' task.h '/^    uint64_t run_ns;/d'
changed 1 'two fields have changed places' task.h '/^    const char \*name;/{h;d}; /^    bool preemptible;/{G}'
changed 1 'a field has another type' task.h 's/^    size_t grace;/    uint32_t grace;/'
changed 1 'a struct without a size has grown' task.h 's/^} stint_budget;/    size_t later;\n&/'
changed 1 'a field in front of others' pool.h 's/^    size_t stack_size;/    size_t later;\n&/'
changed 1 'an enum value in front of others' task.h 's/^    STINT_REPORT_HEAP\b/    STINT_LATER_,\n&/'
changed 1 'a function is gone' pool.h 's/\bstint_pool_workers\b/stint_pool_workers_/'
changed 1 'a function has another argument' token.h 's/\bstint_token_set(stint_token \*token/&, int why/'
changed 1 'a macro has another value' pool.h 's/^#define STINT_REASONS_MAX 32/#define STINT_REASONS_MAX 33/'
changed 1 'a macro is gone' pool.h '/^#define STINT_FOREVER/d'
changed 1 'a callback is given something else' task.h 's/^typedef int stint_fn(void \*arg/typedef int stint_fn(const void *arg/'
changed 1 'a variable is gone' detail/fork.h 's/^extern STINT_API __thread/static __thread/'
changed 1 'a variable has another type' detail/fork.h 's/__thread struct stint_forks_ \*stint_thread_forks_/__thread struct stint_forks_ *const stint_thread_forks_/'
changed 1 'a struct has to be aligned' interrupt.h 's/^} stint_hook;/} __attribute__((aligned(16))) stint_hook;/'
changed 1 'a function is gone that only the C++ header calls' detail/exception.h 's/\bstint_fail_thrown_/stint_fail_thrown_later_/'
changed 0 'a struct with a size has grown' task.h 's/^} stint_options;/    size_t later;\n&/'
changed 0 'a new value of an enum' task.h 's/^} stint_report_level;/    STINT_LATER_,\n&/'
changed 0 'a new function' pool.h 's/^STINT_END_DECLS/STINT_API int stint_later(void);\n&/'
version=$(sed -n 's/^#define STINT_VERSION "\(.*\)"/\1/p' "$frozen")
changed 1 'a new function in a version that is frozen' pool.h 's/^STINT_END_DECLS/STINT_API int stint_later(void);\n&/'
