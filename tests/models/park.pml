/* SPDX-License-Identifier: MIT
 *
 * Parking (executor/worker/park.h): does a task ever lie queued while every worker sleeps?
 *
 * Two workers, three submitters of one task each; a task ends only when as many tasks as there are workers have begun,
 * so a sleeping worker is noticed while the other one is held. Spin's memory is sequentially consistent, so what the
 * fences are for is modelled by hand: a submitter's task and a worker's bit go to a store buffer first, from where they
 * reach memory at any later time; a fence waits until the buffer is empty. The run ends when nothing can move any more;
 * then all tasks must have been run. Built with
 *
 *   -DNO_FENCE         the submitter has no fence: a task is left lying
 *   -DNO_WORKER_FENCE  the worker has none between its bit and its last look: the same
 *   -DNO_LAST_LOOK     the worker sleeps without looking again: the same
 *   -DNO_HAND_ON       the last searcher does not look for more work when it stops searching: the same
 */
#define WORKERS 2
#define SUBMITTERS 3

byte queued;
byte ran;
byte searching;
bool parked[WORKERS];
byte signals[WORKERS];      /* the event: counts wake-ups that were sent and not yet slept through */
bool task_on_its_way[SUBMITTERS];
bool bit_on_its_way[WORKERS];

/* Clear one parked worker's bit, if there is one; then count it and signal it, in that order. */
inline wake_one(w)
{
    w = 0;
    do
    :: w == WORKERS -> break
    :: w < WORKERS && !parked[w] -> w++
    :: atomic { w < WORKERS && parked[w] -> parked[w] = false };
       searching++;
       signals[w]++;
       break
    od
}

inline run_task()
{
    ran++;
    ran >= WORKERS
}

proctype submitter(byte me)
{
    byte w;
    task_on_its_way[me] = true;
#ifndef NO_FENCE
    !task_on_its_way[me];
#endif
    if
    :: searching == 0 -> wake_one(w)
    :: else
    fi
}

proctype worker(byte me)
{
    byte w;
    bool last;

running:
    if
    :: atomic { queued > 0 -> queued-- }; run_task(); goto running
    :: queued == 0 -> skip
    fi;
    searching++;

search:
    if
    :: atomic { queued > 0 -> queued-- };
       atomic { searching--; last = (searching == 0) };
#ifndef NO_HAND_ON
       if
       :: last && queued > 0 -> wake_one(w)
       :: else
       fi;
#endif
       run_task();
       goto running
    :: queued == 0 -> skip
    fi;

    bit_on_its_way[me] = true;
    searching--;
#ifndef NO_WORKER_FENCE
    !bit_on_its_way[me];
#endif
#ifndef NO_LAST_LOOK
    if
    :: queued > 0 ->
       /* Its own read-modify-write of the bit comes after its own store. */
       !bit_on_its_way[me];
       if
       :: atomic { parked[me] -> parked[me] = false }; searching++; goto search
       :: !parked[me] -> skip
       fi
    :: queued == 0 -> skip
    fi;
#endif

end_asleep:
    atomic { signals[me] > 0 -> signals[me]-- };
    goto search
}

/* The store buffers reach memory, each entry at its own time. */
active proctype memory()
{
end_empty:
    do
    :: atomic { task_on_its_way[0] -> task_on_its_way[0] = false; queued++ }
    :: atomic { task_on_its_way[1] -> task_on_its_way[1] = false; queued++ }
    :: atomic { task_on_its_way[2] -> task_on_its_way[2] = false; queued++ }
    :: atomic { bit_on_its_way[0] -> bit_on_its_way[0] = false; parked[0] = true }
    :: atomic { bit_on_its_way[1] -> bit_on_its_way[1] = false; parked[1] = true }
    od
}

init
{
    atomic {
        run worker(0);
        run worker(1);
        run submitter(0);
        run submitter(1);
        run submitter(2);
    }
    timeout -> assert(ran == SUBMITTERS && queued == 0 && searching == 0)
}
