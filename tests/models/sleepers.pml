/* SPDX-License-Identifier: MIT
 *
 * Places, joins and waits together (executor/worker/substitute.h, deadlock.h, executor/fork/fork.c): does everything end,
 * with as few threads as there may be?
 *
 * A pool of WORKERS workers and SPARES substitutes. One task forks a part and does something before it joins it, so
 * another worker may steal the part. Both the part and the task submit a child, and wait for it in such a way that the
 * waiter does not run it itself (as for any of some). Who sleeps gives his place up under the lock, an atomic block here:
 * a spare takes it if there is one. Where nobody holds a place any more, who waits for a child that nobody has begun runs
 * it. So every wait that can end does. The run ends when nothing can move any more; then all must have ended. With
 * -DONE_WORKER there are one worker and a spare, otherwise two workers and none. Built with
 *
 *   -DJOINS_KEEP      who sleeps in a join keeps his place: the children wait for ever
 *   -DONLY_OTHERS     a waiter never runs what it waits for: the same, where there are no substitutes left
 *   -DNO_LAST_LOOK    a worker parks without looking once more after it has said so: a child is left in the queue
 */
#ifdef ONE_WORKER
#define WORKERS 1
#define SPARES 1
#else
#define WORKERS 2
#define SPARES 0
#endif
#define THREADS (WORKERS + SPARES)

mtype = { NEW, QUEUED, BEGUN, ENDED };
mtype child[2] = NEW; /* 0: the task's, 1: the part's */
mtype task = QUEUED;
mtype part = NEW;

byte holding = WORKERS;  /* threads that hold a place */
bool parked[THREADS];   /* and sleep, to be woken by new work */
bool placed[THREADS];   /* substitutes that hold a place */

#define work (task == QUEUED || part == QUEUED || child[0] == QUEUED || child[1] == QUEUED)

/* After something was put in: wake one that is parked, if any is. Its step out of the bit is the wake-up. */
inline notify()
{
    d_step {
        if
        :: parked[0] -> parked[0] = false
        :: else ->
            if
            :: parked[1] -> parked[1] = false
            :: else
            fi
        fi
    }
}

/* Under the lock. */
inline fall_asleep(me)
{
    d_step {
        holding--;
#if SPARES > 0
        if
        :: me != 1 && !placed[1] -> placed[1] = true; holding++
        :: else
        fi
#endif
    }
}

inline awake()
{
    d_step { holding++ }
}

/* Claim and run a child; it ends at once. */
inline run_child(which)
{
    if
    :: atomic { child[which] == QUEUED -> child[which] = BEGUN }; child[which] = ENDED
    :: child[which] != QUEUED -> skip
    fi
}

#ifdef ONLY_OTHERS
#define may_run(which) false
#else
#define may_run(which) (holding == 0 && child[which] == QUEUED)
#endif

inline submit_and_await(me, which)
{
    child[which] = QUEUED;
    notify();
    do
    :: child[which] == ENDED -> break
    :: child[which] != ENDED ->
        fall_asleep(me);
        if
        :: child[which] == ENDED -> awake()
        :: may_run(which) -> awake(); run_child(which)
        fi
    od
}

inline run_part(me)
{
    submit_and_await(me, 1);
    part = ENDED
}

inline join(me)
{
    if
    :: atomic { part == QUEUED -> part = BEGUN }; run_part(me)
    :: part != QUEUED ->
        do
        :: part == ENDED -> break
        :: part != ENDED ->
#ifdef JOINS_KEEP
            part == ENDED
#else
            fall_asleep(me);
            part == ENDED;
            awake()
#endif
        od
    fi
}

inline run_task(me)
{
    part = QUEUED;
    notify();
    if
    :: submit_and_await(me, 0)
    :: child[0] = ENDED /* it does something else */
    fi;
    join(me);
    task = ENDED
}

proctype thread(byte me)
{
end_retired:
    /* A spare sleeps until it is given a place. */
    if
    :: me < WORKERS -> skip
    :: me >= WORKERS && placed[me] -> skip
    fi;
end_parked:
    do
    :: me >= WORKERS && holding > WORKERS ->
        d_step {
            if
            :: holding > WORKERS -> holding--; placed[me] = false
            :: else
            fi
        };
        if
        :: !placed[me] -> notify(); goto end_retired
        :: else
        fi
    :: atomic { task == QUEUED -> task = BEGUN }; run_task(me)
    :: atomic { part == QUEUED -> part = BEGUN }; run_part(me)
    :: atomic { child[0] == QUEUED -> child[0] = BEGUN }; child[0] = ENDED
    :: atomic { child[1] == QUEUED -> child[1] = BEGUN }; child[1] = ENDED
    :: !work ->
        parked[me] = true;
#ifndef NO_LAST_LOOK
        if
        :: work -> parked[me] = false
        :: !work -> skip
        fi;
#endif
end_sleep:
        !parked[me] || (me >= WORKERS && holding > WORKERS);
        parked[me] = false
    od
}

init
{
    atomic {
        byte i = 0;
        do
        :: i < THREADS -> run thread(i); i++
        :: else -> break
        od
    }
    timeout -> assert(task == ENDED && part == ENDED && child[0] == ENDED && child[1] == ENDED)
}
