/* SPDX-License-Identifier: MIT
 *
 * The sleep of an idle worker (executor/worker/substitute.h): does a call always end it, and is each question answered once, so that
 * who asked goes on?
 *
 * A worker that sleeps until it is called, who calls it, and one who asks it twice. The run ends when nothing can move any
 * more; then all three must have come to their end. Built with
 *
 *   -DVALUE_LAST    the worker reads the value of its event after it has looked: a call is slept through
 *   -DNO_FAREWELL   it does not take what it was asked when it stops being idle: the asker waits for ever
 *   -DNO_TAKING_BACK  the asker does not look whether it is still idle: the same
 */
byte value; /* of the event */
bool called;
bool asked;
bool idle;
byte unanswered;
byte ended;

inline answer_if_asked()
{
    bool taken = false;
    atomic { taken = asked; asked = false };
    if
    :: taken -> assert(unanswered > 0); unanswered--
    :: else -> skip
    fi
}

proctype worker()
{
    byte seen;
    idle = true;
    do
    :: true ->
#ifndef VALUE_LAST
       seen = value;
#endif
       if
       :: called -> break
       :: else -> skip
       fi;
       bool was_asked = false;
       atomic { was_asked = asked; asked = false };
       if
       :: was_asked -> assert(unanswered > 0); unanswered--
       :: else ->
#ifdef VALUE_LAST
          seen = value;
#endif
          value != seen
       fi
    od;
    idle = false;
#ifndef NO_FAREWELL
    answer_if_asked();
#endif
    ended++
}

proctype caller()
{
    called = true;
    value++;
    ended++
}

proctype asker()
{
    byte round = 0;
    do
    :: round < 2 ->
       if
       :: idle ->
          unanswered++;
          asked = true;
          value++;
#ifndef NO_TAKING_BACK
          if
          :: !idle -> answer_if_asked()
          :: else -> skip
          fi
#endif
       :: else -> skip
       fi;
       unanswered == 0;
       round++
    :: else -> break
    od;
    ended++
}

init
{
    atomic { run worker(); run caller(); run asker() };
    do
    :: timeout -> assert(ended == 3); break
    od
}
