/* SPDX-License-Identifier: MIT
 *
 * Turns; see turns.h. A turn that is given back goes to the first that waits, by name: none that comes between can take
 * it. The list and all states change with the lock held, under which no task is interrupted. */
#include "turns.h"
#include "clock.h"

#include <pthread.h>
#include <stdbool.h>
#include <time.h>

#include <stint/stint.h>

#define SHORT_NS UINT64_C(5000000) /* of processor time: who needs no more is not asked to wait */
#define TURN_NS UINT64_C(10000000)

static struct {
    pthread_mutex_t lock;
    unsigned free, waiting;
    uint64_t round;     /* of the turn that was given last */
    struct turn *first; /* of those that wait, by their rounds */
} turns = { .lock = PTHREAD_MUTEX_INITIALIZER };

void turns_open(unsigned count)
{
    turns.free = count;
}

unsigned turns_awaited(void)
{
    pthread_mutex_lock(&turns.lock);
    unsigned waiting = turns.waiting;
    pthread_mutex_unlock(&turns.lock);
    return waiting;
}

void turn_begin(struct turn *turn, const void *account)
{
    turn->account = account;
    turn->round = 0;
    atomic_init(&turn->state, TURN_NONE);
    turn->next = NULL;
    turn->began = 0;
    sem_init(&turn->wake, 0, 0);
}

static bool is(struct turn *turn, enum turn_state state)
{
    return atomic_load_explicit(&turn->state, memory_order_acquire) == (int)state;
}

static void set(struct turn *turn, enum turn_state state)
{
    atomic_store_explicit(&turn->state, state, memory_order_release);
}

/* With the lock */

/* In the round after the last for which one of its account waits, or it was held itself; of one round, behind the
 * others. */
static void append(struct turn *turn)
{
    uint64_t round = turn->round + 1 > turns.round ? turn->round + 1 : turns.round;
    for (const struct turn *other = turns.first; other; other = other->next) {
        if (other->account == turn->account && other->round >= round)
            round = other->round + 1;
    }
    struct turn **at = &turns.first;
    while (*at && (*at)->round <= round)
        at = &(*at)->next;
    turn->round = round;
    turn->next = *at;
    *at = turn;
    turns.waiting++;
    set(turn, TURN_AWAITED);
}

static void take_off(struct turn **at)
{
    *at = (*at)->next;
    turns.waiting--;
}

static void pass_on(void)
{
    struct turn *next = turns.first;
    turns.free++;
    if (!next)
        return;
    take_off(&turns.first);
    turns.free--;
    turns.round = next->round;
    set(next, TURN_HELD);
    sem_post(&next->wake);
}

static void stop_waiting(const struct turn *turn)
{
    struct turn **at = &turns.first;
    while (*at != turn)
        at = &(*at)->next;
    take_off(at);
}

/* Takes the lock */

static void ask(struct turn *turn)
{
    pthread_mutex_lock(&turns.lock);
    if (turns.free) {
        turns.free--;
        turn->round = turns.round;
        set(turn, TURN_HELD);
    } else {
        append(turn);
    }
    pthread_mutex_unlock(&turns.lock);
}

/* Where nobody waits it goes on. */
static void let_the_next(struct turn *turn)
{
    pthread_mutex_lock(&turns.lock);
    if (turns.first) {
        pass_on();
        append(turn);
    }
    pthread_mutex_unlock(&turns.lock);
}

void turn_leave(void *argument)
{
    struct turn *turn = argument;
    if (is(turn, TURN_NONE)) /* as nearly all are to their end; nobody else takes it from there */
        return;
    pthread_mutex_lock(&turns.lock);
    if (is(turn, TURN_HELD))
        pass_on();
    else
        stop_waiting(turn);
    set(turn, TURN_NONE);
    pthread_mutex_unlock(&turns.lock);
}

static void wake(void *turn)
{
    sem_post(&((struct turn *)turn)->wake);
}

/* The hook wakes it at its deadline and when its token is set; the checkpoint then leaves from here. */
static void sleep_until_held(struct turn *turn)
{
    stint_hook hook;
    stint_hook_push(&hook, wake, turn);
    stint_blocking_begin();
    while (stint_checkpoint(), !is(turn, TURN_HELD))
        sem_wait(&turn->wake);
    stint_blocking_end();
    stint_hook_pop(&hook);
}

/* To read that clock is a system call, which few queries live long enough for. */
static bool is_short(struct turn *turn)
{
    uint64_t now = clock_of_thread();
    if (turn->began == 0)
        turn->began = now;
    return now - turn->began < SHORT_NS;
}

void turn_take(struct turn *turn)
{
    if (is(turn, TURN_HELD)) {
        if (clock_now() - turn->since < TURN_NS)
            return;
        let_the_next(turn);
    } else {
        if (is_short(turn))
            return;
        ask(turn);
    }
    if (!is(turn, TURN_HELD))
        sleep_until_held(turn);
    turn->since = clock_now();
}
