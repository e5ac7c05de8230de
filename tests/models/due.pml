/* SPDX-License-Identifier: MIT
 *
 * A delayed task (executor/task/delays.h, executor/queue/queue_slots.h): whatever it waited for comes, somebody cancels it,
 * the pool closes, and places in a queue are made meanwhile. Does it resolve, once, and is nobody counted in line in the
 * end?
 *
 * The queue has one place, in which another task is. The starter has it stand in line and fills places, under the line's
 * lock; so does the worker when it has taken one out and sees that somebody is counted. Nothing else would: in the end a
 * worker that finds nothing sleeps. Built with
 *
 *   -DCOUNTS_LATE       who stands in line is counted only after it was tried: the worker makes a place, and sees nobody
 *   -DNO_LOOK           who stands in line does not look whether it has been closed: it stands there for ever
 *   -DCLOSES_FIRST      the pool closes before the line does: the workers may have left when it is put, and it is queued for
 *                       ever
 *   -DNO_SWAP           who takes the offer back does not compare the state before he writes it: it resolves twice
 *   -DOFFERED_FIRST     it can be ended before it stands in line: it is in line, and counted, when it has gone
 */
mtype = { DELAYED, NEW, DUE, QUEUED, ENDING, CLAIMED };
mtype state = DELAYED;
bool in_line, closed, line_closed, locked;
bool place_taken = true; /* by the other task, or this one */
byte counted;            /* as one who waits for a place */
byte resolved;

inline lock()
{
    atomic { !locked -> locked = true }
}

inline unlock()
{
    locked = false
}

inline leave_line()
{
    in_line = false;
    counted--
}

inline resolve()
{
    assert(resolved == 0);
    resolved++
}

/* Under the lock. */
inline fill()
{
    if
    :: in_line ->
        if
        :: atomic { state == DUE -> state = NEW };
           state = QUEUED;
           if
           :: atomic { !place_taken -> place_taken = true };
              leave_line()
           :: place_taken ->
#ifdef NO_SWAP
              state = DUE
#else
              if
              :: atomic { state == QUEUED -> state = DUE }
              :: atomic { state != QUEUED -> skip }; leave_line()
              fi
#endif
           fi
        :: state != DUE -> leave_line()
        fi
    :: else
    fi
}

proctype starter()
{
    if
    :: atomic { state == DELAYED -> state = NEW };
#ifdef OFFERED_FIRST
       state = DUE;
#endif
       lock();
       if
#ifndef NO_LOOK
       :: line_closed -> unlock(); state = ENDING; resolve()
#endif
#ifdef NO_LOOK
       :: true ->
#else
       :: !line_closed ->
#endif
           in_line = true;
#ifndef COUNTS_LATE
           counted++;
#endif
#ifndef OFFERED_FIRST
           state = DUE;
#endif
           fill();
#ifdef COUNTS_LATE
           if
           :: in_line -> counted++
           :: else -> counted++; counted--
           fi;
#endif
           unlock()
       fi
    :: state != DELAYED
    fi
}

/* Each of its turns begins with what is there; it sleeps at the end of the model, when nothing is. */
proctype worker()
{
end_parked:
    do
    :: atomic { place_taken && state == QUEUED -> place_taken = false; state = CLAIMED };
       resolve();
       if
       :: counted > 0 -> lock(); fill(); unlock()
       :: else
       fi
    :: atomic { place_taken && state != QUEUED -> place_taken = false };
       if
       :: counted > 0 -> lock(); fill(); unlock()
       :: else
       fi
    :: closed && !place_taken -> break /* it leaves */
    od
}

inline end_it()
{
    lock();
    if
    :: in_line -> leave_line()
    :: else
    fi;
    unlock();
    resolve()
}

proctype canceller()
{
    if
    :: atomic { state == DELAYED || state == DUE -> state = ENDING }; end_it()
    :: atomic { state == QUEUED -> state = ENDING }; resolve()
    :: state != DELAYED && state != DUE && state != QUEUED
    fi
}

proctype closer()
{
    if
    :: atomic { state == DELAYED || state == DUE -> state = ENDING }; end_it()
    :: state != DELAYED && state != DUE
    fi;
#ifdef CLOSES_FIRST
    closed = true;
#endif
    lock();
    line_closed = true;
    if
    :: in_line ->
        if
        :: atomic { state == DUE -> state = ENDING }; leave_line(); resolve()
        :: state != DUE -> leave_line()
        fi
    :: else
    fi;
    unlock();
    closed = true;
    /* Where all is cancelled it empties the queue, and fills no places. */
    if
    :: atomic { place_taken && state != QUEUED -> place_taken = false }
    :: true
    fi
}

init
{
    atomic {
        run starter();
        run worker();
        if
        :: run canceller()
        :: run closer()
        :: run canceller(); run closer()
        :: skip
        fi
    };
    timeout;
    assert(resolved == 1);
    assert(counted == 0 && !in_line)
}
