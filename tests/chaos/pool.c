/* SPDX-License-Identifier: MIT
 *
 * A library with a free list of its own, from which one task has what another gave back while that one goes on, and a
 * task what a scope of its took that was left since: it is kept. What a task has taken a guard gives back, since it is
 * the library's. Some of it is freed instead, so that the library has to make more. */
#include "library.h"

#include <pthread.h>
#include <stdlib.h>

#define SIZE 200
#define TAKEN 6
#define FREED 2 /* of these */
#define ROUNDS 20

void *kept_take(void);
void kept_give(void *item);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* the library has none */

static void ready(void)
{
    if (stint_module_keep("libkeep-module-kept") != 0)
        abort();
}

struct taken {
    unsigned char *items[TAKEN];
};

static void give_back(void *argument)
{
    struct taken *taken = argument;
    pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < TAKEN; i++) {
        if (i < FREED)
            free(taken->items[i]);
        else if (taken->items[i] != NULL)
            kept_give(taken->items[i]);
    }
    pthread_mutex_unlock(&lock);
}

static int take(struct taken *taken)
{
    int error = 0;
    pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < TAKEN; i++) {
        taken->items[i] = kept_take();
        if (taken->items[i] == NULL)
            error = -1;
    }
    pthread_mutex_unlock(&lock);
    return error;
}

static void fill(const struct taken *taken, unsigned letter)
{
    for (unsigned i = 0; i < TAKEN; i++)
        memset(taken->items[i], (int)(letter + i), SIZE);
}

static bool is_whole(const struct taken *taken, unsigned letter)
{
    unsigned wrong = 0;
    for (unsigned i = 0; i < TAKEN; i++) {
        for (unsigned j = 0; j < SIZE; j++)
            wrong += taken->items[i][j] != (unsigned char)(letter + i);
    }
    return wrong == 0;
}

/* In a scope of its own, which may be left when it has them: they are not the scope's, so they stay. */
static int take_in_scope(void *taken, void **value)
{
    (void)value;
    stint_mask();
    int error = take(taken);
    stint_unmask();
    return error == 0 ? chaos_pass(10) : error;
}

static int use(unsigned letter, uint64_t *sum)
{
    struct taken taken = { { NULL } };
    stint_guard guard;
    stint_outcome outcome;
    stint_guard_push(&guard, give_back, &taken);
    int error = stint_run(take_in_scope, &taken, NULL, &outcome);
    if (error == 0 && outcome.status == STINT_OK) {
        fill(&taken, letter);
        error = chaos_pass(20);
        chaos_add_number(sum, is_whole(&taken, letter));
    } else {
        error = -1;
    }
    stint_guard_pop(&guard, true);
    return error;
}

static int run(unsigned variant, uint64_t *sum)
{
    int error = 0;
    for (unsigned i = 0; i < ROUNDS && error == 0; i++)
        error = use(variant * ROUNDS + i, sum);
    return error;
}

static bool idle(void)
{
    if (pthread_mutex_trylock(&lock) != 0)
        return false;
    pthread_mutex_unlock(&lock);
    return true;
}

const struct chaos_library chaos_pool = {
    .name = "pool",
    .modes = CHAOS_ANY_MODE,
    .preemptible = true,
    .ready = ready,
    .run = run,
    .idle = idle,
};
