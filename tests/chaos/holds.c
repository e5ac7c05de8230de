/* SPDX-License-Identifier: MIT
 *
 * What code holds without a pthread lock: a semaphore of one, which it masks, a once, a cleanup handler. Each is in
 * use most of the time, and the thread that has it must give it back. */
#include "library.h"

#include <pthread.h>
#include <semaphore.h>
#include <threads.h>

static sem_t door;
static unsigned long begun, ended; /* behind the door */

static void ready(void)
{
    sem_init(&door, 0, 1);
}

/* Only this code knows that the semaphore is a lock. */
static int pass_door(uint64_t *sum)
{
    stint_mask();
    while (sem_wait(&door) != 0)
        ;
    chaos_add_number(sum, begun - ended);
    begun++;
    int error = chaos_pass(20);
    ended++;
    sem_post(&door);
    stint_unmask();
    return error;
}

/* --- A once, whose function has a scope of its own: a task that ends outside of it must let it come to its end, unless
 * there was no memory to begin it. Each thread has one of each kind, and makes it anew again and again. */

static __thread struct {
    pthread_once_t once;
    once_flag c_once;
    unsigned made, made_too;
} own = { PTHREAD_ONCE_INIT, ONCE_FLAG_INIT, 0, 0 };

static int make_in_scope(void *unused, void **value)
{
    (void)unused;
    (void)value;
    return chaos_pass(10);
}

static void make(unsigned *made)
{
    stint_outcome outcome;
    int error = stint_run(make_in_scope, NULL, NULL, &outcome);
    *made += error != 0 || outcome.reason != STINT_REASON_OUTER;
}

static void make_one(void)
{
    make(&own.made);
}

static void make_the_other(void)
{
    make(&own.made_too);
}

static void make_once(uint64_t *sum)
{
    pthread_once(&own.once, make_one);
    call_once(&own.c_once, make_the_other);
    chaos_add_number(sum, own.made);
    chaos_add_number(sum, own.made_too);
}

static void renew(void)
{
    static const pthread_once_t once = PTHREAD_ONCE_INIT;
    static const once_flag c_once = ONCE_FLAG_INIT;
    stint_mask();
    own.once = once;
    own.c_once = c_once;
    own.made = own.made_too = 0;
    stint_unmask();
}

/* --- A cleanup handler. What it gives back is taken and given back while it is there: at its end a signal may come
 * between it and what follows. */

static __thread bool is_taken;

static void give_back(void *taken)
{
    *(volatile bool *)taken = false;
}

static int take_and_give_back(uint64_t *sum)
{
    int error;
    chaos_add_number(sum, is_taken);
    pthread_cleanup_push(give_back, &is_taken);
    *(volatile bool *)&is_taken = true;
    error = chaos_pass(20);
    give_back(&is_taken);
    pthread_cleanup_pop(0);
    return error;
}

static int run(unsigned variant, uint64_t *sum)
{
    chaos_add_number(sum, variant);
    make_once(sum); /* left by the last task here, or made now */
    renew();
    make_once(sum);
    int error = take_and_give_back(sum);
    for (unsigned i = 0; i <= variant && error == 0; i++)
        error = pass_door(sum);
    return error;
}

static bool idle(void)
{
    if (sem_trywait(&door) != 0)
        return false;
    bool agree = begun == ended;
    sem_post(&door);
    return agree;
}

const struct chaos_library chaos_holds = {
    .name = "holds",
    .modes = CHAOS_ANY_MODE,
    .preemptible = true,
    .ready = ready,
    .run = run,
    .idle = idle,
};
