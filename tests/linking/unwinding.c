/* SPDX-License-Identifier: MIT
 *
 * A program with a cleanup of its own in C, whose thread ends in the midst of a call of the library's: by libstint.a
 * the library's frames have to be unwound like its own. It prints nothing and returns 0. */
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stint/fork.h>

static int cleaned_up;

static void clean_up(const int *unused)
{
    (void)unused;
    cleaned_up++;
}

static int end_thread(size_t begin, size_t end, void *arg)
{
    (void)begin;
    (void)end;
    pthread_exit(arg);
    return EINVAL;
}

static void *call_library(void *arg)
{
    __attribute__((cleanup(clean_up))) int own = 0;
    stint_for(0, 2, 1, end_thread, arg);
    return (void *)(intptr_t)own;
}

int main(void)
{
    pthread_t thread;
    void *value = NULL;
    if (pthread_create(&thread, NULL, call_library, &cleaned_up) != 0 || pthread_join(thread, &value) != 0)
        return 2;
    return cleaned_up == 1 && value == &cleaned_up ? 0 : 1;
}
