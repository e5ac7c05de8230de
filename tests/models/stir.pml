/* SPDX-License-Identifier: MIT
 *
 * Waits that nobody else will end (executor/worker/deadlock.h): does who waits ever sleep beside a task that he could run,
 * while nobody else is left?
 *
 * A pool of two threads without substitutes. One has slept for long, in a wait for a task that was delayed; it puts itself
 * on the list, looks, and sleeps until it is nudged. The other falls asleep for good. A third thread, no worker, starts the
 * delayed task. Each store goes to a store buffer first, from where it reaches memory at any later time; a fence waits
 * until that has happened. The list's lock is an atomic block. The run ends when nothing can move any more; then the task
 * must have been run. Built with
 *
 *   -DNO_FENCE          who falls asleep, or starts the task, looks at the list before that is known: nobody runs it
 *   -DNO_SLEEPER_FENCE  the sleeper looks before it is known to be on the list: the same
 *   -DONLY_LAST         who starts the task nudges nobody: the same
 *   -DONLY_STARTED      who falls asleep nudges nobody: the same
 */
bool awake = true;       /* the other thread holds a place */
bool queued, listed;     /* as memory has them */
bool buffered[3];        /* stores of: the other thread, the starter, the sleeper */
bool nudged, ran;

inline flush(who)
{
    !buffered[who]
}

inline stir()
{
    if
    :: !awake && listed -> nudged = true
    :: else
    fi
}

proctype last()
{
    buffered[0] = true;
#ifndef NO_FENCE
    flush(0);
#endif
#ifndef ONLY_STARTED
    /* What it has stored itself it sees. */
    if
    :: listed -> nudged = true
    :: else
    fi
#endif
}

proctype starter()
{
    buffered[1] = true;
#ifndef NO_FENCE
    flush(1);
#endif
#ifndef ONLY_LAST
    stir()
#endif
}

proctype sleeper()
{
    buffered[2] = true;
#ifndef NO_SLEEPER_FENCE
    flush(2);
#endif
    do
    :: atomic { !awake && queued -> ran = true }; break
    :: atomic { !(!awake && queued) -> nudged = false };
end_asleep:
       nudged
    od
}

active proctype memory()
{
end_empty:
    do
    :: atomic { buffered[0] -> buffered[0] = false; awake = false }
    :: atomic { buffered[1] -> buffered[1] = false; queued = true }
    :: atomic { buffered[2] -> buffered[2] = false; listed = true }
    od
}

init
{
    atomic { run last(); run starter(); run sleeper() }
    timeout -> assert(ran)
}
