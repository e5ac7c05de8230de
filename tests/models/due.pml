/* SPDX-License-Identifier: MIT
 *
 * A delayed task (executor/task/delays.h, due.h): whatever it waited for comes, somebody cancels it, the pool closes, and places
 * in a queue are made meanwhile. Does it resolve, once, and is nobody counted in line in the end?
 *
 * The queue has one place, in which another task is. The starter has it stand in line and fills places; so does the worker
 * when it has taken one out and sees that somebody is counted. Nothing else would: in the end a worker that finds nothing
 * sleeps. The two locks of delays.h are atomic blocks, but for the one that is held while a task is tried. Built with
 *
 *   -DCOUNTS_STANDING   a task that is tried is not counted meanwhile: the worker makes a place, and sees nobody
 *   -DNO_FILLING        two threads may fill at once: the worker finds the line empty, since the starter has the task in hand
 *   -DNO_LOOK           who stands it in line again does not look whether the pool has closed: it stands there for ever
 *   -DNO_TAKING_BACK    who puts it does not look after that whether the workers may have left: it is queued for ever
 *   -DNO_SWAP           who cancels does not compare the state before he writes it: it resolves twice
 */
mtype = { DELAYED, NEW, DUE, QUEUED, ENDING, CLAIMED };
mtype state = DELAYED;
bool in_line, closed, filling;
bool place_taken = true; /* by the other task, or this one */
byte counted;            /* as one who waits for a place */
byte resolved;

inline end_it()
{
    atomic {
        if
        :: in_line -> in_line = false; counted--
        :: else
        fi
    }
    assert(resolved == 0);
    resolved++
}

inline stand()
{
    in_line = true;
    state = DUE
}

inline fill(has)
{
#ifndef NO_FILLING
    atomic { !filling -> filling = true };
#endif
    do
    :: atomic {
           has = in_line && state == DUE;
           if
           :: has -> in_line = false; state = NEW;
#ifdef COUNTS_STANDING
               counted--
#endif
           :: else
           fi
       };
       if
       :: !has -> break
       :: else
       fi;
       if
       :: atomic { !place_taken -> state = QUEUED; place_taken = true };
#ifndef COUNTS_STANDING
          counted--;
#endif
#ifndef NO_TAKING_BACK
          if
          :: closed ->
             if
             :: atomic { state == QUEUED -> state = ENDING }; assert(resolved == 0); resolved++
             :: state != QUEUED
             fi
          :: !closed
          fi
#endif
       :: place_taken ->
          /* It has been refused. */
          atomic {
              if
#ifndef NO_LOOK
              :: closed -> has = false
#endif
              :: else -> stand();
#ifdef COUNTS_STANDING
                  counted++
#endif
              fi
          };
          if
          :: !has ->
#ifndef COUNTS_STANDING
             counted--;
#endif
             end_it()
          :: else
          fi;
          break
       fi
    od;
#ifndef NO_FILLING
    filling = false
#else
    skip
#endif
}

proctype starter()
{
    bool has = false;
    if
    :: atomic { state == DELAYED -> state = NEW };
       atomic {
           if
           :: closed -> has = true
           :: else -> stand();
               counted++
           fi
       };
       if
       :: has -> end_it()
       :: else -> fill(has)
       fi
    :: state != DELAYED
    fi
}

/* Each of its turns begins with what is there; it sleeps at the end of the model, when nothing is. */
proctype worker()
{
    bool has = false;
end_parked:
    do
    :: atomic { place_taken && state == QUEUED -> place_taken = false; state = CLAIMED };
       assert(resolved == 0);
       resolved++;
       if
       :: counted > 0 -> fill(has)
       :: else
       fi
    :: atomic { place_taken && state != QUEUED -> place_taken = false };
       if
       :: counted > 0 -> fill(has)
       :: else
       fi
    :: closed && !place_taken -> break /* it leaves */
    od
}

proctype canceller()
{
#ifdef NO_SWAP
    if
    :: state == DELAYED || state == DUE -> state = ENDING; end_it()
    :: state != DELAYED && state != DUE
    fi
#else
    if
    :: atomic { state == DELAYED || state == DUE -> state = ENDING }; end_it()
    :: state != DELAYED && state != DUE
    fi
#endif
}

proctype closer()
{
    bool mine = false;
    atomic {
        closed = true;
        if
        :: in_line && state == DUE -> in_line = false; counted--; state = ENDING; mine = true
        :: state == DELAYED -> state = ENDING; mine = true
        :: else
        fi
    };
    if
    :: mine -> end_it()
    :: else
    fi;
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
    assert(counted == 0)
}
