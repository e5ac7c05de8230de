/* SPDX-License-Identifier: MIT
 *
 * A serial queue (executor/task/serial.c): does one task run at a time, does each resolve once, and has each had its turn in the
 * end, whoever is cancelled, and whenever?
 *
 * TASKS tasks, each submitted by a thread of its own and run, when it has been started, by a worker's; a canceller ends
 * any that has not been started. Each task follows its own end, from when it has been made until it has resolved: the one
 * that resolves it tells it, or the submitter when it comes later. The queue's lock is an atomic block. Built with
 *
 *   -DNO_OVER        who submits does not look whether his task has ended before it had a place in the line
 *   -DONLY_STARTED   the end of a task whose turn it was passes the turn on only if it has been started
 *   -DNO_LOCK        who submits looks whether it is anybody's turn, and takes it later: two have it
 *   -DKEEPS_IN_LINE  a task that has ended stays in line
 */
#define TASKS 3
#define NOBODY 255

mtype = { NEW, DELAYED, STARTED, RESOLVED };
mtype state[TASKS] = NEW;
bool followed[TASKS], told[TASKS], in_line[TASKS], over[TASKS];
byte line[TASKS]; /* its place; the least is the first */
byte next_place;
byte current = NOBODY;
byte waiting; /* in line */
byte running;
byte resolved[TASKS];

/* Under the lock. */
inline pass_turn(starts)
{
    starts = NOBODY;
    byte i = 0;
    do
    :: i < TASKS ->
       if
       :: in_line[i] && (starts == NOBODY || line[i] < line[starts]) -> starts = i
       :: else
       fi;
       i++
    :: else -> break
    od;
    i = 0;
    current = starts;
    if
    :: starts != NOBODY -> in_line[starts] = false; waiting--
    :: else
    fi
}

inline start(which)
{
    if
    :: which == NOBODY
    :: which != NOBODY ->
       if
       :: atomic { state[which] == DELAYED -> state[which] = STARTED }
       :: state[which] != DELAYED
       fi
    fi
}

inline has_ended(me, starts)
{
    d_step {
        starts = NOBODY;
        over[me] = true;
        if
#ifndef KEEPS_IN_LINE
        :: in_line[me] -> in_line[me] = false; waiting--
#endif
#ifdef ONLY_STARTED
        :: !in_line[me] && current == me && was_started -> pass_turn(starts)
#else
        :: !in_line[me] && current == me -> pass_turn(starts)
#endif
        :: else
        fi
    };
    start(starts)
}

/* The state is RESOLVED. One of the two tells. */
inline tell(me, starts)
{
    bool mine = false;
    atomic { mine = followed[me] && !told[me]; told[me] = told[me] || mine };
    if
    :: mine -> has_ended(me, starts)
    :: else
    fi
}

proctype submitter(byte me)
{
    byte starts = NOBODY;
    bool was_started = false;
    bool is_free;
    state[me] = DELAYED;
    followed[me] = true;
    if
    :: state[me] == RESOLVED -> tell(me, starts)
    :: else
    fi;
#ifdef NO_LOCK
    is_free = current == NOBODY;
#endif
    d_step {
        starts = NOBODY;
#ifdef NO_OVER
        in_line[me] = true; line[me] = next_place; next_place++; waiting++;
#else
        if
        :: !over[me] -> in_line[me] = true; line[me] = next_place; next_place++; waiting++
        :: else
        fi;
#endif
#ifndef NO_LOCK
        is_free = current == NOBODY;
#endif
        if
        :: is_free -> pass_turn(starts)
        :: else
        fi
    };
    start(starts)
}

proctype worker(byte me)
{
    byte starts = NOBODY;
    bool was_started = true;
end_idle:
    if
    :: state[me] == STARTED ->
       running++;
       assert(running == 1);
       running--;
       resolved[me]++;
       state[me] = RESOLVED;
       tell(me, starts)
    :: state[me] == RESOLVED
    fi
}

proctype canceller(byte me)
{
    byte starts = NOBODY;
    bool was_started = false;
    if
    :: atomic { state[me] == DELAYED -> state[me] = RESOLVED; resolved[me]++ };
       tell(me, starts)
    :: state[me] == STARTED || state[me] == RESOLVED
    fi
}

init
{
    atomic {
        run submitter(0); run submitter(1); run submitter(2);
        run worker(0); run worker(1); run worker(2);
        run canceller(0); run canceller(1)
    };
    timeout;
    byte i = 0;
    do
    :: i < TASKS -> assert(resolved[i] == 1); assert(!in_line[i]); i++
    :: else -> break
    od;
    assert(current == NOBODY && waiting == 0)
}
