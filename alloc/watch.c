/* SPDX-License-Identifier: MIT
 *
 * The watch thread; the protocol is in watch.h. */
#include "watch.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "boundary.h"
#include "clock.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t calls_ended = PTHREAD_COND_INITIALIZER;
static struct sti_watch *watches;
static atomic_size_t count; /* of watches */
static sem_t woken;         /* initialised before count is ever above 0 */
static bool started;        /* the rest under the lock */
static _Atomic uint64_t next_look = STI_WATCH_NEVER;

static uint64_t look_at_all(void)
{
    uint64_t next = STI_WATCH_NEVER;
    uint64_t now = sti_clock_now();
    for (struct sti_watch *watch = watches; watch != NULL;) {
        uint64_t wanted = watch->look(watch, now);
        if (wanted == STI_WATCH_AGAIN) {
            next = STI_WATCH_NEVER;
            now = sti_clock_now();
            watch = watches;
            continue;
        }
        if (wanted < next)
            next = wanted;
        watch = watch->next;
    }
    return next;
}

static void sleep_until(uint64_t time)
{
    if (time == STI_WATCH_NEVER) {
        sem_wait(&woken);
        return;
    }
    struct timespec until = { .tv_sec = (time_t)(time / 1000000000), .tv_nsec = (long)(time % 1000000000) };
    sem_clockwait(&woken, CLOCK_MONOTONIC, &until);
}

static _Noreturn void *keep_watch(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&lock);
    for (;;) {
        while (sem_trywait(&woken) == 0)
            ; /* one look answers all who have called so far */
        atomic_store_explicit(&next_look, STI_WATCH_NEVER, memory_order_seq_cst);
        uint64_t until = look_at_all();
        atomic_store_explicit(&next_look, until, memory_order_seq_cst);
        pthread_mutex_unlock(&lock);
        sleep_until(until);
        pthread_mutex_lock(&lock);
    }
}

/* Signals of the program are for its own threads. */
static int start(void)
{
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_attr_t attributes;
    int error = pthread_attr_init(&attributes);
    if (error != 0)
        return error;
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t thread;
    error = pthread_create(&thread, &attributes, keep_watch, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    if (error == 0) {
        pthread_setname_np(thread, "stint-watch");
        started = true;
    }
    return error;
}

/* The child of a fork has no such thread: it starts one at its next need. What was watched at the fork is not watched in
 * the child. The lock is held over the fork, so that the list is whole. */
static void before_fork(void)
{
    pthread_mutex_lock(&lock);
}

static void after_fork_in_parent(void)
{
    pthread_mutex_unlock(&lock);
}

static void after_fork_in_child(void)
{
    for (struct sti_watch *watch = watches; watch != NULL; watch = watch->next) {
        watch->link = NULL;
        watch->calls = 0;
    }
    watches = NULL;
    pthread_cond_init(&calls_ended, NULL); /* those who waited are not there either */
    atomic_store_explicit(&count, 0, memory_order_relaxed);
    started = false;
    atomic_store_explicit(&next_look, STI_WATCH_NEVER, memory_order_relaxed);
    pthread_mutex_unlock(&lock);
}

__attribute__((constructor)) static void prepare(void)
{
    sem_init(&woken, 0, 0);
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

int sti_watch_begin(struct sti_watch *watch, uint64_t time)
{
    pthread_mutex_lock(&lock);
    int error = started ? 0 : start();
    if (error == 0) {
        watch->calls = 0;
        watch->next = watches;
        watch->link = &watches;
        if (watches != NULL)
            watches->link = &watch->next;
        watches = watch;
        if (!watch->only_time)
            atomic_fetch_add_explicit(&count, 1, memory_order_seq_cst);
        sti_watch_hasten(time);
    }
    pthread_mutex_unlock(&lock);
    return error;
}

void sti_watch_end(struct sti_watch *watch)
{
    pthread_mutex_lock(&lock);
    sti_watch_await_calls(watch);
    if (watch->link != NULL) {
        *watch->link = watch->next;
        if (watch->next != NULL)
            watch->next->link = watch->link;
        watch->link = NULL;
        if (!watch->only_time)
            atomic_fetch_sub_explicit(&count, 1, memory_order_relaxed);
    }
    pthread_mutex_unlock(&lock);
}

void sti_watch_lock(void)
{
    pthread_mutex_lock(&lock);
}

void sti_watch_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

void sti_watch_call(struct sti_watch *watch, void (*function)(void *arg), void *arg)
{
    watch->calls++;
    pthread_mutex_unlock(&lock);
    STI_BOUNDARY_CALLBACK("hook", function, arg, NULL, NULL);
    pthread_mutex_lock(&lock);
    if (--watch->calls == 0)
        pthread_cond_broadcast(&calls_ended);
}

void sti_watch_await_calls(const struct sti_watch *watch)
{
    while (watch->calls > 0)
        pthread_cond_wait(&calls_ended, &lock);
}

void sti_watch_hasten(uint64_t time)
{
    if (time < atomic_load_explicit(&next_look, memory_order_seq_cst))
        sem_post(&woken);
}

void sti_watch_wake(void)
{
    if (atomic_load_explicit(&count, memory_order_seq_cst) > 0)
        sem_post(&woken);
}
