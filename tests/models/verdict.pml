/* SPDX-License-Identifier: MIT
 *
 * Who is told that nobody will end his wait (executor/worker/deadlock.h), and slots of accounts that are handed on
 * (executor/queue/fair_queue.h): does each waiter's wait end, or is he told? And is nobody told whose wait would end?
 *
 * Two pools of two threads, without substitutes; two accounts, each with one running task. Tasks 0 to 2 run on threads 0 to
 * 2, thread 3 is idle. Tasks 3 and 5 are of the first pool, 4 of the second; 3 and 4 are queued, 5 is delayed until the
 * clock starts it, at any time, and waits for 4 when it runs. What the first three wait for is chosen: one other task, any
 * of two, both of two; and which of them has a slot. Nobody runs what he waits for himself.
 *
 * A look is an atomic block, as it is under one lock; so is each step of a slot on its way. That a slot is free, to whom it
 * goes, and whether that one's pool is asleep by then are steps of their own. Where a waiter is to be told, it may instead
 * be that nobody is told any more: then its wait must never end. So the second answer holds as far as these programs go;
 * in the code it does not for tasks that are due and find no place, who may be told too early (holds_some_back). Built with
 *
 *   -DKEEPS_SLOT     a slot stays with a pool that has fallen asleep: who waits for another pool's task waits for ever
 *   -DNO_STIR        the last thread of a pool that falls asleep, and the clock, nudge nobody: the same
 *   -DFULL_IS_STUCK  of an account that has its maximum nobody is taken to go on: who waits behind it is told too early
 *   -DNO_CLOCK       a delayed task is taken for one that nobody starts: the same
 */
#define NONE 9

mtype = { DELAYED, QUEUED, RUNS, ENDED };
mtype state[6];
byte runner[6];
byte account[6];     /* 0: none */
byte first[6];       /* that it waits for; NONE */
byte second[6];
bool any;            /* of the two, for task 0 */
bool held[6], offered[6];
byte holder[3];      /* thread that has the account's slot; NONE; index 0 is not used */
byte places[2] = 2;
byte runs[4];        /* task of the thread */
bool listed[4], stuck[4], nudged[4];
byte victim = NONE;  /* that would have been told */
bool is_frozen, pivot;

#define pool_of(task) (task == 4)
#define pool_stuck(pool) (places[pool] == 0 && stuck[2 * (pool)] && stuck[2 * (pool) + 1])
#ifdef FULL_IS_STUCK
#define account_stuck(which) ((which) != 0 && holder[which] != NONE)
#else
#define account_stuck(which) ((which) != 0 && holder[which] != NONE && stuck[holder[which]])
#endif
#ifdef NO_CLOCK
#define unstarted(task) (state[task] == DELAYED)
#else
#define unstarted(task) false
#endif
#define nobody_ends(task) ((state[task] == RUNS && stuck[runner[task]]) || unstarted(task) || \
    (state[task] == QUEUED && (pool_stuck(pool_of(task)) || account_stuck(account[task]))))
#define over(task) (state[task] == ENDED)
#define is_any(task) (task == 0 && any)
#define satisfied(task) (first[task] == NONE || (over(first[task]) && (second[task] == NONE || is_any(task))) || \
    (second[task] != NONE && over(second[task]) && (is_any(task) || over(first[task]))))
#define in_vain(task) (is_any(task) -> (nobody_ends(first[task]) && nobody_ends(second[task])) : \
    (nobody_ends(first[task]) || (second[task] != NONE && nobody_ends(second[task]))))
#define may_be_free(thread) (stuck[thread] && !in_vain(runs[thread]))

/* All but who is fixed, who is free. In an atomic step. */
inline find_stuck(fixed)
{
    stuck[0] = listed[0] && fixed != 0;
    stuck[1] = listed[1] && fixed != 1;
    stuck[2] = listed[2] && fixed != 2;
    stuck[3] = listed[3] && fixed != 3;
    do
    :: may_be_free(0) -> stuck[0] = false
    :: !may_be_free(0) && may_be_free(1) -> stuck[1] = false
    :: !may_be_free(0) && !may_be_free(1) && may_be_free(2) -> stuck[2] = false
    :: !may_be_free(0) && !may_be_free(1) && !may_be_free(2) && may_be_free(3) -> stuck[3] = false
    :: else -> break
    od
}

/* Whether its being told would end its own wait. */
inline look_whether_told(thread)
{
    if
    :: listed[thread] && !pivot ->
        find_stuck(NONE);
        if
        :: stuck[thread] ->
            find_stuck(thread);
            pivot = !in_vain(runs[thread]);
            if
            :: pivot && thread == me -> told = true
            :: pivot && thread != me -> nudged[thread] = true
            :: else
            fi
        :: else
        fi
    :: else
    fi
}

inline look()
{
    d_step {
        nudged[me] = false;
        find_stuck(NONE);
        if
        :: stuck[me] && !is_frozen ->
            pivot = false;
            look_whether_told(me);
            look_whether_told(0);
            look_whether_told(1);
            look_whether_told(2);
            look_whether_told(3);
            told = told || !pivot;
            pivot = false
        :: else
        fi;
        stuck[0] = false; stuck[1] = false; stuck[2] = false; stuck[3] = false
    }
}

/* Who is told leaves the list at once; or nobody is told any more. */
inline look_and_leave()
{
    look();
    if
    :: told -> listed[me] = false
    :: told -> told = false; victim = me; is_frozen = true
    :: else
    fi
}

inline nudge_pool(pool)
{
    d_step {
        if
        :: places[pool] == 0 ->
            nudged[2 * (pool)] = listed[2 * (pool)];
            nudged[2 * (pool) + 1] = listed[2 * (pool) + 1]
        :: else
        fi
    }
}

inline nudge_all()
{
    d_step { nudged[0] = listed[0]; nudged[1] = listed[1]; nudged[2] = listed[2]; nudged[3] = listed[3] }
}

#define is_held(task, which) (state[task] == QUEUED && held[task] && account[task] == which)
#define can_use(task, which) (is_held(task, which) && places[pool_of(task)] > 0)

inline make_ready(task)
{
    held[task] = false;
    offered[task] = true
}

/* A slot may be free: it is for one of a pool that is not asleep; or, where there is none, for all. */
inline offer_slot(which)
{
    atomic {
        if
        :: holder[which] == NONE && can_use(3, which) -> make_ready(3); chosen = 3
        :: holder[which] == NONE && can_use(4, which) -> make_ready(4); chosen = 4
        :: holder[which] == NONE && can_use(5, which) -> make_ready(5); chosen = 5
        :: holder[which] != NONE || (!can_use(3, which) && !can_use(4, which) && !can_use(5, which)) ->
            chosen = NONE;
            if
            :: holder[which] == NONE && is_held(3, which) -> make_ready(3)
            :: else
            fi;
            if
            :: holder[which] == NONE && is_held(4, which) -> make_ready(4)
            :: else
            fi;
            if
            :: holder[which] == NONE && is_held(5, which) -> make_ready(5)
            :: else
            fi
        fi
    }
}

/* All threads of the pool sleep: what was offered there is for others. */
inline pass_on(pool)
{
    do
    :: atomic { offered[3] && pool == 0 -> offered[3] = false; which = account[3] }; offer_slot(which)
    :: atomic { offered[4] && pool == 1 -> offered[4] = false; which = account[4] }; offer_slot(which)
    :: atomic { offered[5] && pool == 0 -> offered[5] = false; which = account[5] }; offer_slot(which)
    :: else -> break
    od
}

inline give_slot_back(slot)
{
    which = slot;
    holder[which] = NONE;
    offer_slot(which);
    do
    :: chosen == NONE -> break
    :: chosen != NONE ->
        if
        :: places[pool_of(chosen)] == 0 -> pass_on(pool_of(chosen)); break
        :: places[pool_of(chosen)] > 0 -> break
        fi
    od
}

inline await()
{
    atomic { places[me / 2]--; last = places[me / 2] == 0 };
    if
    :: last ->
#ifndef NO_STIR
        nudge_pool(me / 2);
#endif
#ifndef KEEPS_SLOT
        pass_on(me / 2)
#endif
    :: else
    fi;
    atomic { listed[me] = true; look_and_leave() };
end_asleep:
    do
    :: atomic { told -> told = false; break }
    :: atomic { !told && satisfied(runs[me]) -> assert(victim != me); listed[me] = false; break }
    :: atomic { !told && nudged[me] && !satisfied(runs[me]) -> look_and_leave() }
    od;
    places[me / 2]++
}

#define can_take(task) (state[task] == QUEUED && !held[task] && pool_of(task) == me / 2)

/* Or find that it is held back, and then it is not offered any more. */
inline take(task)
{
    if
    :: account[task] != 0 && holder[account[task]] != NONE -> held[task] = true; offered[task] = false
    :: else ->
        if
        :: account[task] != 0 -> holder[account[task]] = me
        :: else
        fi;
        offered[task] = false;
        state[task] = RUNS;
        runner[task] = me;
        runs[me] = task
    fi
}

proctype thread(byte me)
{
    bool told, last;
    byte which, chosen = NONE;
end_idle:
    do
    :: runs[me] != NONE ->
        if
        :: !satisfied(runs[me]) -> await()
        :: else
        fi;
        atomic { which = account[runs[me]]; state[runs[me]] = ENDED; runs[me] = NONE };
        if
        :: which != 0 -> give_slot_back(which)
        :: else
        fi;
        which = 0;
        chosen = NONE
    :: atomic { runs[me] == NONE && can_take(3) -> take(3) }
    :: atomic { runs[me] == NONE && can_take(4) -> take(4) }
    :: atomic { runs[me] == NONE && can_take(5) -> take(5) }
    od
}

proctype clock()
{
    state[5] = QUEUED;
#ifndef NO_STIR
    nudge_pool(0);
    if
    :: account[5] != 0 -> nudge_all()
    :: else
    fi
#endif
}

inline choose(task, one, two)
{
    if
    :: first[task] = one
    :: first[task] = two
    fi
}

init {
    atomic {
        byte i = 0;
        do
        :: i < 6 ->
            state[i] = (i < 3 -> RUNS : QUEUED);
            runner[i] = (i < 3 -> i : NONE);
            first[i] = NONE; second[i] = NONE;
            i++
        :: else -> break
        od;
        state[5] = DELAYED;
        holder[1] = NONE; holder[2] = NONE;
        runs[0] = 0; runs[1] = 1; runs[2] = 2; runs[3] = NONE;
        choose(0, 1, 4);
        choose(1, 2, 5);
        choose(2, 0, 3);
        /* Any of two, or both. */
        if
        :: second[0] = 3
        :: first[0] == 1 -> second[0] = 4
        fi;
        if
        :: second[0] == 3 -> any = true
        :: second[0] != 3 -> any = false
        fi;
        /* Whose task has the slot, of which account another is. */
        if
        :: account[0] = 1; holder[1] = 0
        :: account[2] = 1; holder[1] = 2
        fi;
        account[1] = 2;
        holder[2] = 1;
        account[3] = 2;
        account[4] = 1;
        first[5] = 4;
        /* Or one slot is given back, for which others of both pools are held back. */
        if
        :: account[0] == 1 && first[0] == 4 && first[1] == 5 ->
            first[0] = NONE; second[0] = NONE; first[1] = 4; first[2] = 1; account[3] = 1; held[3] = true
        :: true
        fi;
        i = 0;
        run thread(0); run thread(1); run thread(2); run thread(3); run clock()
    };
    timeout;
    assert(is_frozen || (over(0) && over(1) && over(2)))
}
