/* SPDX-License-Identifier: MIT
 *
 * Where preemption signals are not heard: in the libraries that this one calls while its own state is half changed. */
#include <dlfcn.h>

#include "alloc/platform/caller.h"
#include "support.h"

/* As the verdict asks it of what a signal has stopped. */
static bool may_be_stopped(const void *code)
{
    struct sti_caller_module module = { .size = 0 };
    return sti_module_may_be_left((uintptr_t)code, STI_LEFT_STOPPED, &module) && !sti_caller_is_ours((uintptr_t)code);
}

TEST(no_signal_is_heard_in_what_the_pool_calls)
{
    static const char *const functions[] = { "pthread_mutex_lock",     "syscall",      "mi_heap_new",
                                             "ck_ec32_wait_pred_slow", "ck_ec32_wake", "_Unwind_Backtrace" };
    unsigned found = 0;
    (void)state;
    assert_non_null(dlopen("libgcc_s.so.1", RTLD_NOW | RTLD_GLOBAL)); /* the library loads it for itself alone */
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        void *address = dlsym(RTLD_DEFAULT, functions[i]);
        if (address == NULL)
            continue; /* a part of the program, where it is linked statically */
        found++;
        if (may_be_stopped(address))
            fail_msg("%s", functions[i]);
    }
    assert_true(found > 3);
}

TEST_MAIN()
