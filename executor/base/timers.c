/* SPDX-License-Identifier: MIT
 *
 * The timing wheel; see timers.h. The caller locks. */
#include "timers.h"

#include <string.h>

#define TICK_SHIFT 20
#define DIGIT_BITS 6
#define DIGIT_MASK ((uint64_t)STI_TIMER_SLOTS - 1)

static unsigned tick_digit(uint64_t tick, unsigned level)
{
    return (unsigned)(tick >> level * DIGIT_BITS & DIGIT_MASK);
}

void sti_timers_init(struct sti_timers *timers, uint64_t now)
{
    memset(timers, 0, sizeof *timers);
    timers->tick = now >> TICK_SHIFT;
    timers->expired_end = &timers->expired;
}

/* Ticks have 44 bits, levels enough for 48. */
static void timer_file(struct sti_timers *timers, struct sti_timer *timer)
{
    uint64_t difference = timer->tick ^ timers->tick;
    unsigned level = (63 - (unsigned)__builtin_clzll(difference)) / DIGIT_BITS;
    unsigned slot = tick_digit(timer->tick, level);
    struct sti_timer **head = &timers->slots[level][slot];
    timer->level = (unsigned char)level;
    timer->slot = (unsigned char)slot;
    timer->next = *head;
    timer->link = head;
    if (*head != NULL)
        (*head)->link = &timer->next;
    *head = timer;
    timers->used[level] |= UINT64_C(1) << slot;
}

/* The tick at which the first used slot begins. A level's used slots all lie ahead of the present. */
static uint64_t next_tick(const struct sti_timers *timers)
{
    for (unsigned level = 0; level < STI_TIMER_LEVELS; level++) {
        if (timers->used[level] == 0)
            continue;
        uint64_t slot = (uint64_t)__builtin_ctzll(timers->used[level]);
        uint64_t above = timers->tick >> (level + 1) * DIGIT_BITS << (level + 1) * DIGIT_BITS;
        return above | slot << level * DIGIT_BITS;
    }
    return STI_TIMERS_NONE;
}

uint64_t sti_timers_next(const struct sti_timers *timers)
{
    uint64_t tick = next_tick(timers);
    return tick != STI_TIMERS_NONE ? tick << TICK_SHIFT : STI_TIMERS_NONE;
}

uint64_t sti_timers_add(struct sti_timers *timers, struct sti_timer *timer, uint64_t deadline)
{
    uint64_t before = next_tick(timers);
    timer->tick = (deadline >> TICK_SHIFT) + 1;
    if (timer->tick <= timers->tick)
        timer->tick = timers->tick + 1;
    timer_file(timers, timer);
    timers->count++;
    uint64_t after = next_tick(timers);
    return after < before ? after << TICK_SHIFT : STI_TIMERS_NONE;
}

static void unlink_timer(struct sti_timers *timers, struct sti_timer *timer)
{
    *timer->link = timer->next;
    if (timer->next != NULL)
        timer->next->link = timer->link;
    else if (timers->expired_end == &timer->next)
        timers->expired_end = timer->link;
    timer->link = NULL;
    if (timers->slots[timer->level][timer->slot] == NULL)
        timers->used[timer->level] &= ~(UINT64_C(1) << timer->slot);
}

void sti_timers_remove(struct sti_timers *timers, struct sti_timer *timer)
{
    if (timer->link == NULL)
        return;
    unlink_timer(timers, timer);
    timers->count--;
}

/* A slot has the last one first. before: the end, as it was before this slot. */
static void timer_expire(struct sti_timers *timers, struct sti_timer **before, struct sti_timer *timer)
{
    timer->next = *before;
    timer->link = before;
    *(*before != NULL ? &(*before)->link : &timers->expired_end) = &timer->next;
    *before = timer;
}

void sti_timers_expire(struct sti_timers *timers, uint64_t now)
{
    uint64_t end = now >> TICK_SHIFT;
    uint64_t tick;
    while ((tick = next_tick(timers)) <= end) {
        unsigned level = 0;
        while (timers->used[level] == 0)
            level++;
        struct sti_timer *timer = timers->slots[level][tick_digit(tick, level)];
        struct sti_timer **before = timers->expired_end;
        timers->tick = tick;
        while (timer != NULL) {
            struct sti_timer *following = timer->next;
            unlink_timer(timers, timer);
            if (timer->tick <= tick)
                timer_expire(timers, before, timer);
            else
                timer_file(timers, timer);
            timer = following;
        }
    }
    if (timers->tick < end)
        timers->tick = end;
}

struct sti_timer *sti_timers_take(struct sti_timers *timers)
{
    struct sti_timer *timer = timers->expired;
    if (timer != NULL)
        sti_timers_remove(timers, timer);
    return timer;
}
