/* SPDX-License-Identifier: MIT
 *
 * Preemption (alloc/interrupt/signals.c, hook.c, watch.c): does a loop end whose token is set, although whoever sets it
 * sends one signal and goes, and the watch sleeps for good where it knows of nothing?
 *
 * Two setters, each with a reason; the watch; and a task, which makes no sample points: only a signal that finds it in
 * its own code ends it. It is away some of the time, in libc, masked or with a lock held, and in its own code in the end.
 * Somebody else has the watch's lock for a while, and has a signal sent that is to end nothing, as for a changed limit. When nothing moves any more, the task has ended. Built with
 *
 *   -DNO_AGAIN      a handler that finds the task away leaves it at that: it turns for ever
 *   -DCLEARS_LAST   the handler says that it has taken the signal when it has looked: the same
 *   -DNO_POST       a setter that does not get the lock does not wake the watch: the same
 *   -DNO_NEXT       the watch goes to sleep for good, and does not say so: a handler takes it to look again, the same
 *   -DPILES_UP      signals are sent although one has not been taken: more than two are on their way
 *   -DWEAK_REASON   a setter does not wait until its reason has reached memory: the handler of a signal that it relies on
 *                   does not see it
 *   -DWEAK_ANSWER   the handler does not wait until others know that it has taken the signal: the same
 */
#define SETTERS 2

bool reason[SETTERS];
bool locked;
bool asked;    /* a signal has been sent and not been taken */
byte signals;  /* on their way */
bool not_yet;  /* the time in ask_at has not come */
bool posted;   /* the watch's semaphore */
bool wakes;    /* the watch looks again before long */
bool says_so;  /* next_look: it will, as far as others know */
bool ended;

/* Stores go to a store buffer first, from where they reach memory at any later time; seq_cst: the thread waits. */
bool reason_on_its_way[SETTERS];
bool answer_on_its_way;

inline send()
{
#ifndef PILES_UP
    if
    :: atomic { !asked -> asked = true }; signals++
    :: asked
    fi;
#else
    asked = true; signals++;
#endif
    assert(signals <= 2)
}

proctype setter(byte me)
{
    reason_on_its_way[me] = true;
#ifndef WEAK_REASON
    !reason_on_its_way[me];
#endif
    if
    :: atomic { !locked -> locked = true };
       send();
       locked = false
    :: locked ->
#ifndef NO_POST
       posted = true
#else
       skip
#endif
    fi
}

proctype other()
{
    atomic { !locked -> locked = true };
    send();
    locked = false
}

proctype watch()
{
end:
    do
    :: atomic { posted -> posted = false };
       atomic { !locked -> locked = true };
       wakes = false;
       says_so = false;
       if
       :: (reason[0] || reason[1]) && !not_yet -> send(); wakes = true
       :: (reason[0] || reason[1]) && not_yet -> wakes = true
       :: else
       fi;
#ifdef NO_NEXT
       says_so = true;
#else
       says_so = wakes;
#endif
       locked = false
    :: atomic { wakes && !posted -> not_yet = false; posted = true } /* time passes */
    od
}

inline handler()
{
    signals--;
#ifndef CLEARS_LAST
    answer_on_its_way = true;
#ifndef WEAK_ANSWER
    !answer_on_its_way;
#endif
#endif
    if
    :: !away ->
       if
       :: reason[0] -> ended = true
       :: else ->
          if
          :: reason[1] -> ended = true
          :: else
          fi
       fi
    :: else ->
#ifndef NO_AGAIN
       not_yet = true;
       if
       :: !says_so -> posted = true
       :: says_so
       fi
#else
       skip
#endif
    fi;
#ifdef CLEARS_LAST
    asked = false;
#endif
}

proctype task()
{
    bool away;
    byte trips;
    do
    :: ended -> break
    :: !ended && signals > 0 -> handler()
    :: !ended && !away && trips < 2 -> away = true; trips++
    :: !ended && away -> away = false
    od
}

active proctype memory()
{
end_empty:
    do
    :: atomic { reason_on_its_way[0] -> reason_on_its_way[0] = false; reason[0] = true }
    :: atomic { reason_on_its_way[1] -> reason_on_its_way[1] = false; reason[1] = true }
    :: atomic { answer_on_its_way -> answer_on_its_way = false; asked = false }
    od
}

init
{
    atomic {
        run setter(0);
        run setter(1);
        run other();
        run watch();
        run task();
    }
    timeout -> assert(ended)
}
