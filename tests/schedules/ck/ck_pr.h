/* SPDX-License-Identifier: MIT
 *
 * Stands before Concurrency Kit's header of this name (-I), with points at those of its operations that the event count
 * consists of, and at the fences that the library calls; see ../points.h. */
#ifndef TESTS_SCHEDULES_CK_PR_H
#define TESTS_SCHEDULES_CK_PR_H

#include_next <ck_pr.h>

#define ck_pr_md_load_32(...) SCHEDULES_AROUND(ck_pr_md_load_32(__VA_ARGS__))
#define ck_pr_faa_32(...) SCHEDULES_AROUND(ck_pr_faa_32(__VA_ARGS__))
#define ck_pr_fence_store_atomic(...) SCHEDULES_AROUND_VOID(ck_pr_fence_store_atomic(__VA_ARGS__))
#define ck_pr_fence_atomic_load(...) SCHEDULES_AROUND_VOID(ck_pr_fence_atomic_load(__VA_ARGS__))

#endif
