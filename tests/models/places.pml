/* SPDX-License-Identifier: MIT
 *
 * Waiting for a place (executor/queue/queue_slots.h): does a submitter ever stand in line while there is a place?
 *
 * A queue of two places, both taken; two workers that take the entries out, and two submitters who wait. A worker's store
 * that frees the slot goes to a store buffer first, from where it reaches memory at any later time; its claim is a locked
 * instruction, which waits until that has happened. The line's lock is an atomic block. The run ends when nothing can move
 * any more; then both submitters must have got a place. Built with
 *
 *   -DNO_BARRIER     the claim does not wait for the store: a submitter sleeps beside a free place
 *   -DNO_SECOND_TRY  the submitter sleeps without trying once more when it stands in line: the same
 *   -DLOOKS_FIRST    the worker looks at the line before it claims: the same
 */
#define WORKERS 2
#define WAITERS 2

byte free;                 /* places, as memory has them */
bool on_its_way[WORKERS];  /* a freed place in the store buffer */
byte line;
byte placed;

/* Under the lock: places for those who wait. */
inline fill()
{
    atomic {
        do
        :: free > 0 && line > 0 -> free--; line--; placed++
        :: else -> break
        od
    }
}

proctype worker(byte me)
{
    bool wanted;
    on_its_way[me] = true;
#ifdef LOOKS_FIRST
    wanted = (line > 0);
#endif
#ifndef NO_BARRIER
    !on_its_way[me];
#endif
#ifndef LOOKS_FIRST
    wanted = (line > 0);
#endif
    if
    :: wanted -> fill()
    :: else
    fi
}

proctype submitter()
{
    /* The first try, without the line. */
    if
    :: atomic { free > 0 -> free--; placed++ }
    :: free == 0 ->
#ifdef NO_SECOND_TRY
       line++
#else
       atomic { line++; fill() }
#endif
    fi
}

active proctype memory()
{
end_empty:
    do
    :: atomic { on_its_way[0] -> on_its_way[0] = false; free++ }
    :: atomic { on_its_way[1] -> on_its_way[1] = false; free++ }
    od
}

init
{
    atomic {
        run worker(0);
        run worker(1);
        run submitter();
        run submitter();
    }
    timeout -> assert(placed == WAITERS && line == 0)
}
