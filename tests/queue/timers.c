/* SPDX-License-Identifier: MIT
 *
 * The timing wheel against a plain array: random timers put in, taken out, and left until they expire. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "test.h"
#include <executor/pool/monitor.h>

#define TICK ((uint64_t)1 << 20)
#define TIMERS 500
#define STEPS 200000

struct entry {
    struct sti_timer timer;
    uint64_t deadline;
    uint64_t due; /* the deadline, or when it was put in, if that came later */
    bool in;
};

static uint64_t seed = 1;

static uint64_t dice(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

/* From nanoseconds to years, each size as often as the others; some have passed already. */
static uint64_t some_deadline(uint64_t now)
{
    uint64_t distance = dice() >> (10 + dice() % 54);
    return dice() % 16 == 0 ? now - distance % (now / 2) : now + distance;
}

static void check_next(const struct sti_timers *timers, const struct entry *entries)
{
    uint64_t earliest = UINT64_MAX;
    for (size_t i = 0; i < TIMERS; i++) {
        if (entries[i].in && entries[i].deadline < earliest)
            earliest = entries[i].deadline;
    }
    if (earliest == UINT64_MAX)
        assert_int_equal(sti_timers_next(timers), STI_TIMERS_NONE);
    else /* not later than a tick after the earliest; or one has long passed, and waits for the next tick */
        assert_true(sti_timers_next(timers) <= earliest + TICK || sti_timers_next(timers) == (timers->tick + 1) * TICK);
}

TEST(each_timer_expires_within_a_tick_after_its_deadline_unless_it_is_taken_out)
{
    static struct sti_timers timers;
    static struct entry entries[TIMERS];
    uint64_t now = (uint64_t)5 << 40;
    size_t in = 0;
    size_t expirations = 0;
    sti_timers_init(&timers, now);
    for (size_t step = 0; step < STEPS; step++) {
        struct entry *entry = &entries[dice() % TIMERS];
        if (entry->in) {
            sti_timers_remove(&timers, &entry->timer);
            entry->in = false;
            in--;
        } else {
            entry->deadline = some_deadline(now);
            entry->due = entry->deadline > now ? entry->deadline : now;
            sti_timers_add(&timers, &entry->timer, entry->deadline);
            entry->in = true;
            in++;
        }
        assert_int_equal(timers.count, in);
        if (step % 8 != 0)
            continue;
        now += dice() >> (20 + dice() % 44);
        sti_timers_expire(&timers, now);
        uint64_t latest = 0;
        for (struct entry *expired; (expired = (struct entry *)sti_timers_take(&timers)) != NULL;) {
            assert_true(expired->timer.tick >= latest);
            latest = expired->timer.tick;
            assert_true(expired->in);
            assert_true(expired->deadline <= now);
            expired->in = false;
            in--;
            expirations++;
        }
        for (size_t i = 0; i < TIMERS; i++)
            assert_true(!entries[i].in || entries[i].due + 2 * TICK > now);
        check_next(&timers, entries);
    }
    assert_true(expirations > STEPS / 50);
}

TEST(only_a_timer_that_is_earlier_than_all_asks_for_a_look)
{
    struct sti_timers timers;
    struct sti_timer a = { 0 }, b = { 0 }, c = { 0 };
    uint64_t now = (uint64_t)1 << 40;
    sti_timers_init(&timers, now);
    assert_int_equal(sti_timers_next(&timers), STI_TIMERS_NONE);
    uint64_t look = sti_timers_add(&timers, &a, now + 20 * TICK);
    assert_in_range(look, now + 20 * TICK, now + 21 * TICK);
    assert_int_equal(sti_timers_next(&timers), look);
    assert_int_equal(sti_timers_add(&timers, &b, now + 30 * TICK), STI_TIMERS_NONE);
    look = sti_timers_add(&timers, &c, now + 10 * TICK);
    assert_in_range(look, now + 10 * TICK, now + 11 * TICK);
    sti_timers_remove(&timers, &c);
    sti_timers_remove(&timers, &c);
    assert_int_equal(timers.count, 2);
    sti_timers_expire(&timers, now + 20 * TICK);
    assert_null(sti_timers_take(&timers));
    sti_timers_expire(&timers, now + 21 * TICK);
    sti_timers_expire(&timers, now + 1000 * TICK);
    assert_int_equal(timers.count, 2); /* until they are taken */
    assert_ptr_equal(sti_timers_take(&timers), &a);
    assert_null(a.link);
    sti_timers_remove(&timers, &b);
    assert_null(sti_timers_take(&timers));
    sti_timers_add(&timers, &a, now);
    sti_timers_expire(&timers, now + 2000 * TICK);
    assert_ptr_equal(sti_timers_take(&timers), &a);
    assert_int_equal(timers.count, 0);
}

TEST(what_expires_in_one_tick_comes_as_it_was_put_in)
{
    struct sti_timers timers;
    struct sti_timer all[5] = { 0 };
    uint64_t now = (uint64_t)1 << 40;
    sti_timers_init(&timers, now);
    for (size_t i = 0; i < 5; i++)
        sti_timers_add(&timers, &all[i], i); /* long passed */
    sti_timers_expire(&timers, now + 2 * TICK);
    for (size_t i = 0; i < 5; i++)
        assert_ptr_equal(sti_timers_take(&timers), &all[i]);
    assert_null(sti_timers_take(&timers));
}

TEST_MAIN()
