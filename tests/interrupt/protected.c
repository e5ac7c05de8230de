/* SPDX-License-Identifier: MIT
 *
 * Where preemption signals are not heard: in the libraries that this one calls while its own state is half changed. */
#include <dlfcn.h>

#include "alloc/base/caller.h"
#include "support.h"

TEST(no_signal_is_heard_in_what_the_pool_calls)
{
    static const char *const functions[] = { "pthread_mutex_lock",     "syscall",      "mi_heap_new",
                                             "ck_ec32_wait_pred_slow", "ck_ec32_wake", "_Unwind_Backtrace" };
    unsigned found = 0;
    (void)state;
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        void *address = dlsym(RTLD_DEFAULT, functions[i]);
        if (address == NULL)
            continue; /* a part of the program, where it is linked statically */
        found++;
        if (!sti_caller_is_protected((uintptr_t)address))
            fail_msg("%s", functions[i]);
    }
    assert_true(found > 3);
}

TEST_MAIN()
