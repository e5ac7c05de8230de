/* SPDX-License-Identifier: MIT
 *
 * Put in front of each file by the compiler (-include), this calls a function before and after each atomic operation of
 * the library's own. A module that is loaded first has that function (yields.c), and may keep the thread there for a
 * while. Without the module nothing happens.
 *
 * C11's atomics are macros of builtins, in gcc's header and in clang's. A macro is not expanded within itself, so each
 * builtin is replaced under its own name. Concurrency Kit's operations follow in ck/ck_pr.h. It includes nothing: some
 * files choose what the headers of libc declare. */
#ifndef TESTS_SCHEDULES_POINTS_H
#define TESTS_SCHEDULES_POINTS_H

/* A line of the library's with an atomic operation. */
struct schedules_place {
    const char *file;
    int line;
    signed char heat; /* of this run: 0 not drawn yet, 1 hot, -1 cold */
};

#ifdef __cplusplus
extern "C"
#else
extern
#endif
    void
    schedules_point(struct schedules_place *place) __attribute__((weak, visibility("default")));

#ifndef __cplusplus
/* In the text of the library and of Concurrency Kit, which is known when it is compiled. What a program does with
 * atomics of its own is left alone: it may loop on one until it is interrupted. */
#define SCHEDULES_IS_OURS(file)                                                                                        \
    (__builtin_strstr(file, "alloc/") != ((void *)0) || __builtin_strstr(file, "executor/") != ((void *)0) ||          \
     __builtin_strstr(file, "ck_ec.h") != ((void *)0))

#define SCHEDULES_POINT(place)                                                                                         \
    if (SCHEDULES_IS_OURS(__FILE__) && schedules_point != ((void *)0))                                                 \
    schedules_point(place)

#define SCHEDULES_AROUND(operation)                                                                                    \
    __extension__({                                                                                                    \
        static struct schedules_place schedules_place = { __FILE__, __LINE__, 0 };                                     \
        SCHEDULES_POINT(&schedules_place);                                                                             \
        __auto_type schedules_result = operation;                                                                      \
        SCHEDULES_POINT(&schedules_place);                                                                             \
        schedules_result;                                                                                              \
    })

#define SCHEDULES_AROUND_VOID(operation)                                                                               \
    __extension__({                                                                                                    \
        static struct schedules_place schedules_place = { __FILE__, __LINE__, 0 };                                     \
        SCHEDULES_POINT(&schedules_place);                                                                             \
        operation;                                                                                                     \
        SCHEDULES_POINT(&schedules_place);                                                                             \
    })

/* gcc's */
#define __atomic_load(...) SCHEDULES_AROUND_VOID(__atomic_load(__VA_ARGS__))
#define __atomic_load_n(...) SCHEDULES_AROUND(__atomic_load_n(__VA_ARGS__))
#define __atomic_store(...) SCHEDULES_AROUND_VOID(__atomic_store(__VA_ARGS__))
#define __atomic_store_n(...) SCHEDULES_AROUND_VOID(__atomic_store_n(__VA_ARGS__))
#define __atomic_exchange(...) SCHEDULES_AROUND_VOID(__atomic_exchange(__VA_ARGS__))
#define __atomic_compare_exchange(...) SCHEDULES_AROUND(__atomic_compare_exchange(__VA_ARGS__))
#define __atomic_fetch_add(...) SCHEDULES_AROUND(__atomic_fetch_add(__VA_ARGS__))
#define __atomic_fetch_sub(...) SCHEDULES_AROUND(__atomic_fetch_sub(__VA_ARGS__))
#define __atomic_fetch_or(...) SCHEDULES_AROUND(__atomic_fetch_or(__VA_ARGS__))
#define __atomic_fetch_and(...) SCHEDULES_AROUND(__atomic_fetch_and(__VA_ARGS__))
#define __atomic_fetch_xor(...) SCHEDULES_AROUND(__atomic_fetch_xor(__VA_ARGS__))
#define __atomic_thread_fence(...) SCHEDULES_AROUND_VOID(__atomic_thread_fence(__VA_ARGS__))

/* clang's */
#define __c11_atomic_load(...) SCHEDULES_AROUND(__c11_atomic_load(__VA_ARGS__))
#define __c11_atomic_store(...) SCHEDULES_AROUND_VOID(__c11_atomic_store(__VA_ARGS__))
#define __c11_atomic_exchange(...) SCHEDULES_AROUND(__c11_atomic_exchange(__VA_ARGS__))
#define __c11_atomic_compare_exchange_strong(...) SCHEDULES_AROUND(__c11_atomic_compare_exchange_strong(__VA_ARGS__))
#define __c11_atomic_compare_exchange_weak(...) SCHEDULES_AROUND(__c11_atomic_compare_exchange_weak(__VA_ARGS__))
#define __c11_atomic_fetch_add(...) SCHEDULES_AROUND(__c11_atomic_fetch_add(__VA_ARGS__))
#define __c11_atomic_fetch_sub(...) SCHEDULES_AROUND(__c11_atomic_fetch_sub(__VA_ARGS__))
#define __c11_atomic_fetch_or(...) SCHEDULES_AROUND(__c11_atomic_fetch_or(__VA_ARGS__))
#define __c11_atomic_fetch_and(...) SCHEDULES_AROUND(__c11_atomic_fetch_and(__VA_ARGS__))
#define __c11_atomic_fetch_xor(...) SCHEDULES_AROUND(__c11_atomic_fetch_xor(__VA_ARGS__))
#define __c11_atomic_thread_fence(...) SCHEDULES_AROUND_VOID(__c11_atomic_thread_fence(__VA_ARGS__))
#endif

#endif
