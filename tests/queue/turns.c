/* SPDX-License-Identifier: MIT
 *
 * The heap of turns against a plain list: random puts, removals of the first and of any, times that are equal, and
 * times that wrap around. */
#include "support.h"

#include "executor/queue/fair_entry.h"

#define ENTRIES 300
#define STEPS 200000

struct entry {
    struct sti_turn turn;
    bool is_in;
};

static struct entry entries[ENTRIES];

static struct entry *first_of_all(void)
{
    struct entry *first = NULL;
    for (size_t i = 0; i < ENTRIES; i++) {
        struct entry *entry = &entries[i];
        if (entry->is_in && (first == NULL || sti_time_is_before(entry->turn.time, first->turn.time) ||
                             (entry->turn.time == first->turn.time && entry->turn.number < first->turn.number)))
            first = entry;
    }
    return first;
}

TEST(the_first_is_always_the_one_with_the_least_time_and_of_equals_the_oldest)
{
    uint64_t random = 1;
    struct sti_turns turns = { .first = NULL };
    uint64_t base = UINT64_MAX - STEPS; /* so it wraps around on the way */
    for (size_t step = 0; step < STEPS; step++) {
        struct entry *entry = &entries[random_below(&random, ENTRIES)];
        size_t dice = random_below(&random, 8);
        if (!entry->is_in) {
            entry->turn.time = base + step * 2 + random_below(&random, 40);
            sti_turns_put(&turns, &entry->turn);
            entry->is_in = true;
        } else if (dice < 4) {
            sti_turns_remove(&turns, &entry->turn);
            entry->is_in = false;
        } else if (turns.first != NULL) {
            entry = (struct entry *)turns.first;
            sti_turns_remove(&turns, turns.first);
            entry->is_in = false;
        }
        assert_ptr_equal(turns.first, first_of_all());
    }
}

TEST_MAIN()
