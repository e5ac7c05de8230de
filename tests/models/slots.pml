/* SPDX-License-Identifier: MIT
 *
 * Slots of an account (alloc/meter/account.c, executor/queue/fair_queue.c): is a tenant ever held back while its account has a slot?
 *
 * One account with one slot, taken at first by somebody outside; two pools, each with a tenant of one task. All of the
 * four accesses are locked instructions or sequentially consistent, so there are no store buffers. The run ends when
 * nothing can move any more; then both tasks must have run. Built with
 *
 *   -DNO_SECOND_TRY  the tenant is held back without trying again after it has said that it waits: it is left behind
 *   -DTELLS_FIRST    who leaves looks for waiters before it gives the slot back: the same
 */
#define POOLS 2

byte running = 1;
byte awaited;
byte ran;
bool held[POOLS];

/* The listener, under the room's lock. */
inline tell_all()
{
    held[0] = false;
    held[1] = false
}

inline leave(waiters)
{
#ifdef TELLS_FIRST
    waiters = (awaited > 0);
    running--;
#else
    running--;
    waiters = (awaited > 0);
#endif
    if
    :: waiters -> tell_all()
    :: else
    fi
}

proctype outsider()
{
    bool waiters;
    leave(waiters)
}

/* Lets go of the room's lock only between two attempts: so nobody makes it ready while it is being held back. */
proctype pool(byte me)
{
    bool waiters;
    byte before;
try:
    if
    :: atomic { running == 0 -> running++ }
    :: running > 0 ->
       awaited++;
       held[me] = true; /* the room is locked until here: the listener comes after */
#ifndef NO_SECOND_TRY
       if
       :: atomic { running == 0 -> running++ }; held[me] = false; awaited--; goto run_task
       :: running > 0 -> skip
       fi;
#endif
end_held:
       !held[me];
       awaited--;
       goto try
    fi;
run_task:
    ran++;
    leave(waiters)
}

init
{
    atomic {
        run outsider();
        run pool(0);
        run pool(1);
    }
    timeout -> assert(ran == POOLS && running == 0)
}
