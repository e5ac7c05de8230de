/* SPDX-License-Identifier: MIT
 *
 * Giving back (alloc/platform/process.c): is all that was freed given back, when everybody is done?
 *
 * Each of three threads frees a page and asks for it to be given back; then it frees and asks a second time. mimalloc,
 * which lets one thread at a time give back, is a guard that is tried and two steps: which pages there are, and that they
 * go. Built with
 *
 *   -DNO_AGAIN     who collects does not look whether it was asked meanwhile: a page stays
 *   -DNO_STATE     everybody asks mimalloc by itself: the same
 *   -DASKS_FIRST   who comes meanwhile asks before it has freed: the same
 */
#define THREADS 3

mtype = { AT_REST, COLLECTING, ASKED };
mtype state = AT_REST;
byte freed;
bool purging;
byte inside;

inline mimalloc_collect()
{
    if
    :: atomic { !purging -> purging = true };
       seen = freed;
       atomic { freed = freed - seen; purging = false }
    :: purging -> skip
    fi
}

proctype thread()
{
    byte seen, turn;
    bool mine, asked_only;
    do
    :: turn == 2 -> break
    :: turn < 2 ->
       turn++;
       asked_only = false;
#ifdef ASKS_FIRST
       if
       :: atomic { state != AT_REST -> state = ASKED }; asked_only = true
       :: state == AT_REST -> skip
       fi;
#endif
       freed++;
#ifdef NO_STATE
       mimalloc_collect();
#else
       mine = false;
       if
       :: asked_only -> skip
       :: !asked_only ->
          if
          :: atomic { state == AT_REST -> state = COLLECTING; mine = true }
          :: atomic { state != AT_REST -> state = ASKED }
          fi
       fi;
       do
       :: !mine -> break
       :: mine ->
          inside++;
          assert(inside == 1);
          mimalloc_collect();
          inside--;
#ifdef NO_AGAIN
          state = AT_REST; mine = false
#else
          if
          :: atomic { state == ASKED -> state = COLLECTING }
          :: atomic { state == COLLECTING -> state = AT_REST; mine = false }
          fi
#endif
       od
#endif
    od
}

init
{
    atomic {
        run thread();
        run thread();
        run thread();
    }
    timeout ->
    assert(freed == 0);
    assert(state == AT_REST)
}
