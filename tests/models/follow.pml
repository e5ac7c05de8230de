/* SPDX-License-Identifier: MIT
 *
 * Followers (executor/follow.h): is each run exactly once, and does nobody sleep on?
 *
 * One resolver, two threads that add a follower each, one that sleeps until the future has resolved, and one that rings
 * the bell for another reason. The word is 0 or the newest follower, with a bit for sleepers, or CLOSED. Its changes are
 * compare-and-swaps and exchanges, so they have one order; the bell is compared by the kernel in the same step in which it
 * puts a sleeper on its list. Spin's memory is sequentially consistent; that is enough, as a thread passes one of these
 * steps between any two accesses whose order matters.
 *
 *   -DNO_BIT         the sleeper does not set the bit: it sleeps on
 *   -DNO_BELL        the resolver wakes without changing the bell: the sleeper misses it
 *   -DRING_FIRST     the resolver rings before it closes the word: the same
 *   -DNO_CLOSING     the resolver leaves the word empty in place of CLOSED: a follower that comes late is never run
 *   -DLOSES_SLEEPERS a follower that is added overwrites the bit: the sleeper sleeps on
 */
#define FOLLOWERS 2
#define NOBODY 0
#define CLOSED 15
#define SLEEPERS 8

bool resolved;
byte bell;
byte word;
byte next[FOLLOWERS + 1];
byte ran[FOLLOWERS + 1];
bool asleep;
bool woke;

inline ring()
{
#ifndef NO_BELL
    bell++;
#endif
    asleep = false
}

proctype resolver()
{
    byte before, follower;
    resolved = true;
#ifdef RING_FIRST
    ring();
#endif
#ifdef NO_CLOSING
    atomic { before = word; word = NOBODY };
#else
    atomic { before = word; word = CLOSED };
#endif
#ifndef RING_FIRST
    if
    :: before & SLEEPERS -> ring()
    :: else
    fi;
#endif
    follower = before & 7;
    do
    :: follower != NOBODY -> ran[follower]++; follower = next[follower]
    :: else -> break
    od
}

proctype adder(byte me)
{
    byte seen;
    seen = word;
    do
    :: seen == CLOSED -> ran[me]++; break
    :: else ->
       next[me] = seen & 7;
       if
#ifdef LOSES_SLEEPERS
       :: atomic { word == seen -> word = me }; break
#else
       :: atomic { word == seen -> word = me | (seen & SLEEPERS) }; break
#endif
       :: word != seen -> seen = word
       fi
    od
}

proctype sleeper()
{
    byte value;
    bool closed;
    do
    :: value = bell;
       closed = false;
#ifdef NO_BIT
       closed = resolved;
#else
       atomic { closed = (word == CLOSED); word = word | SLEEPERS };
#endif
       if
       :: closed -> break
       :: else
       fi;
       /* The kernel: if the bell is still what it was, sleep. */
       atomic { asleep = (bell == value) };
       !asleep;
       if
       :: resolved -> break
       :: else
       fi
    od;
    woke = true
}

proctype rescuer()
{
    bell++;
    asleep = false
}

init
{
    atomic {
        run resolver();
        run adder(1);
        run adder(2);
        run sleeper();
        run rescuer();
    }
    timeout -> assert(woke && ran[1] == 1 && ran[2] == 1)
}
