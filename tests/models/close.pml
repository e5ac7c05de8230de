/* SPDX-License-Identifier: MIT
 *
 * Closing (executor/worker/park.h, executor/pool/pool.c): does every accepted task run, does every worker leave?
 *
 * One worker, two submitters of one task each, and a thread that closes the pool at any moment. As in park.pml, stores
 * that a fence has to order go through a store buffer. Built with
 *
 *   -DNO_FENCE         the submitter has no fence between its task and its look at the phase: an accepted task is left
 *   -DNO_TAKING_BACK   the submitter does not look at the phase again: the same
 *   -DNO_FAREWELL      the worker leaves without taking its bit back: the same
 */
#define SUBMITTERS 2

mtype = { NONE, QUEUED, CLAIMED };
mtype task[SUBMITTERS] = NONE;  /* what is in memory */
bool on_its_way[SUBMITTERS];
bool closed;
bool parked;
byte signals;
bool accepted[SUBMITTERS];
bool refused[SUBMITTERS];
bool ran[SUBMITTERS];
bool left;

#define work (task[0] == QUEUED || task[1] == QUEUED)

inline wake()
{
    if
    :: atomic { parked -> parked = false }; signals++
    :: !parked -> skip
    fi
}

proctype submitter(byte me)
{
    if
    :: closed -> refused[me] = true; goto done
    :: !closed -> skip
    fi;
    on_its_way[me] = true;
#ifndef NO_FENCE
    !on_its_way[me];
#endif
    wake();
#ifndef NO_TAKING_BACK
    if
    :: closed ->
       /* The claim is a read-modify-write of the task, which its own store has reached. */
       !on_its_way[me];
       if
       :: atomic { task[me] == QUEUED -> task[me] = CLAIMED }; refused[me] = true; goto done
       :: task[me] == CLAIMED -> skip
       fi
    :: !closed -> skip
    fi;
#endif
    accepted[me] = true;
done:
    skip
}

proctype worker()
{
    bool found, leaving;
again:
    do
    :: atomic { task[0] == QUEUED -> task[0] = CLAIMED }; ran[0] = true
    :: atomic { task[1] == QUEUED -> task[1] = CLAIMED }; ran[1] = true
    :: !work -> break
    od;
    parked = true;
    found = work;
    leaving = !found && closed;
#ifdef NO_FAREWELL
    if
    :: leaving -> parked = false; left = true; goto done
    :: else
    fi;
#endif
    if
    :: found || leaving ->
       if
       :: atomic { parked -> parked = false };
          if
          :: leaving -> left = true; goto done
          :: else -> goto again
          fi
       :: !parked -> skip
       fi
    :: else
    fi;
    atomic { signals > 0 -> signals-- };
    goto again;
done:
    skip
}

proctype closer()
{
    closed = true;
    wake()
}

active proctype memory()
{
end_empty:
    do
    :: atomic { on_its_way[0] -> on_its_way[0] = false; task[0] = QUEUED }
    :: atomic { on_its_way[1] -> on_its_way[1] = false; task[1] = QUEUED }
    od
}

init
{
    atomic {
        run worker();
        run submitter(0);
        run submitter(1);
        run closer();
    }
    timeout ->
    assert(left && !parked);
    assert(accepted[0] == ran[0] && refused[0] == !ran[0]);
    assert(accepted[1] == ran[1] && refused[1] == !ran[1])
}
