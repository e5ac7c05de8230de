/* SPDX-License-Identifier: MIT
 *
 * debugger_program: a process with a task in each state, and a place where debugger.py stops it. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <stint/stint.h>

#define HOUR_NS UINT64_C(3600000000000)

static pthread_mutex_t cache_lock = PTHREAD_MUTEX_INITIALIZER;
static int everything_is_there[2];

static void must(int error)
{
    if (error != 0) {
        fprintf(stderr, "%s\n", strerror(error));
        exit(1);
    }
}

__attribute__((noinline)) static void all_is_there(void)
{
    __asm__ volatile("");
}

__attribute__((noinline)) static void *allocate(size_t size)
{
    void *block = malloc(size);
    __asm__ volatile("" : "+r"(block));
    return block;
}

static void free_page(void *page)
{
    free(page);
}

/* With a token that is set, a lock and a guard: it goes on, masked. */
static int parse_page(void *arg, void **value)
{
    stint_guard guard;
    void *page = allocate(100000);
    (void)value;
    stint_guard_push(&guard, free_page, page);
    stint_mask();
    pthread_mutex_lock(&cache_lock);
    stint_token_set(arg);
    free(allocate(1 << 20)); /* a sample point */
    all_is_there();
    pthread_mutex_unlock(&cache_lock);
    stint_unmask();
    stint_guard_pop(&guard, true);
    return 0;
}

static int parse_document(void *arg, void **value)
{
    stint_outcome outcome;
    stint_options options = STINT_OPTIONS_INIT;
    stint_token *token;
    char byte;
    (void)arg;
    (void)value;
    while (read(everything_is_there[0], &byte, 1) != 1)
        ;
    must(stint_token_create(NULL, &token));
    options.name = "page";
    options.token = token;
    options.budget.memory = 4 << 20;
    options.budget.wall_ns = HOUR_NS;
    must(stint_run(parse_page, token, &options, &outcome));
    stint_token_release(token);
    return outcome.status == STINT_CANCELLED ? 0 : EPROTO;
}

static int draw_cover(void *arg, void **value)
{
    (void)arg;
    *value = allocate(2 << 20);
    return 0;
}

static int index_words(void *arg, void **value)
{
    (void)arg;
    (void)value;
    return 0;
}

static int wait_for_document(void *document, void **value)
{
    (void)value;
    return stint_future_wait(document, NULL);
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

#define SOON                                                                                                           \
    100000 /* microseconds: ten times as long as a worker sleeps before the library knows what it waits for            \
            */

static void await_sleeper(const stint_pool *pool)
{
    stint_pool_statistics statistics = STINT_POOL_STATISTICS_INIT;
    do {
        usleep(100);
        must(stint_pool_read(pool, &statistics));
    } while (statistics.asleep == 0);
    usleep(SOON);
}

int main(void)
{
    stint_pool_options pool_options = STINT_POOL_OPTIONS_INIT;
    stint_account_limits limits = STINT_ACCOUNT_LIMITS_INIT;
    stint_options options = STINT_OPTIONS_INIT;
    stint_pool *pool;
    stint_account *account;
    stint_future *cover, *document, *reader, *words, *billed, *later, *both;
    stint_outcome outcome;
    if (pipe(everything_is_there) != 0)
        return 1;
    pool_options.workers = 2;
    pool_options.name = "books";
    pool_options.substitutes = STINT_NO_SUBSTITUTES;
    must(stint_pool_create(&pool_options, &pool));
    limits.name = "acme";
    must(stint_account_create(NULL, &limits, &account));
    options.name = "cover";
    options.budget.allocation = 1 << 20;
    must(stint_submit(pool, draw_cover, NULL, &options, &cover));
    must(stint_future_wait(cover, &outcome));
    options.name = "document";
    options.budget.allocation = 64 << 20;
    must(stint_submit(pool, parse_document, NULL, &options, &document));
    options = (stint_options)STINT_OPTIONS_INIT;
    options.name = "reader";
    must(stint_submit(pool, wait_for_document, document, &options, &reader));
    await_sleeper(pool); /* both workers have a task, so the next task waits */
    options.name = "words";
    must(stint_submit(pool, index_words, NULL, &options, &words));
    options.account = account;
    options.name = "billed";
    must(stint_submit(pool, index_words, NULL, &options, &billed));
    options.account = NULL;
    options.name = "la\nter\033[1m";
    must(stint_submit_at(pool, index_words, NULL, &options, now_ns() + HOUR_NS, &later));
    must(stint_when_all((stint_future *[]){ document, words }, 2, &both));
    if (write(everything_is_there[1], "", 1) != 1)
        return 1;
    must(stint_future_wait(both, &outcome));
    stint_future_cancel(later);
    must(stint_pool_destroy(pool));
    return outcome.status == STINT_OK ? 0 : 1;
}
