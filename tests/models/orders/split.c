/* SPDX-License-Identifier: MIT
 *
 * The split deque of executor/base/split.c, with four slots: an owner that forks and joins, and two thieves. Each
 * subtask is run once, whoever runs it sees what its owner wrote before the fork, and the owner sees the thief's
 * answer. */
#include "program.h"
#include "source.c"

#define ANSWER 7

static struct sti_split split;
static stint_subtask subtasks[ENTRIES];

static void *thief(void *arg)
{
    struct sti_offer *offer = sti_split_steal(&split, NULL);
    if (offer != NULL) {
        take_entry(offer->arg);
        offer->code = ANSWER;
        atomic_store_explicit(&offer->state, STI_OFFER_ENDED, memory_order_release);
    }
    return arg;
}

static size_t fork_one(int i)
{
    write_entry(i);
    subtasks[i].arg_ = &numbers[i];
    sti_split_free_slot(&split)->fork = &subtasks[i];
    size_t place = sti_split_push(&split);
    sti_split_share(&split, sti_split_depth(&split), NULL);
    return sti_split_index(&split, place);
}

static void join_one(int i, size_t index)
{
    if (sti_split_take(&split, index)) {
        take_entry(&numbers[i]);
        return;
    }
    __VERIFIER_assume(atomic_load_explicit(&split.offers[index].state, memory_order_acquire) == STI_OFFER_ENDED);
    assert(split.offers[index].code == ANSWER);
    sti_split_forget(&split, index);
}

int main(void)
{
    pthread_t one, other;
    sti_split_init(&split);
    START(one, thief);
    START(other, thief);
    size_t oldest = fork_one(0);
    size_t next = fork_one(1);
    join_one(1, next);
    next = fork_one(2);
    join_one(2, next);
    join_one(0, oldest);
    END(one);
    END(other);
    assert_all_taken(3);
    return 0;
}
