/* SPDX-License-Identifier: MIT
 *
 * Followers (executor/follow.h): is each run exactly once, and does nobody sleep on?
 *
 * One resolver, two threads that add a follower each, one that sleeps until the future has resolved. The word is 0 or the
 * newest follower, with a bit for sleepers, or CLOSED. Its changes are compare-and-swaps and exchanges, so they have one
 * order; of other words only the state matters, which the kernel compares in the same step in which it puts a sleeper on
 * its list. Spin's memory is sequentially consistent; for the state that is enough, because the resolver's exchange
 * (acq_rel) comes after its store, and the sleeper's wait comes after its own change of the word.
 *
 *   -DCLOSE_FIRST    the word is closed before the state changes: the sleeper is woken too early and sleeps on
 *   -DNO_BIT         the sleeper does not set the bit: it sleeps on
 *   -DNO_CLOSING     the resolver leaves the word empty in place of CLOSED: a follower that comes late is never run
 *   -DLOSES_SLEEPERS a follower that is added overwrites the bit: the sleeper sleeps on
 */
#define FOLLOWERS 2
#define NOBODY 0
#define CLOSED 15
#define SLEEPERS 8

bool resolved;
byte word;
byte next[FOLLOWERS + 1];
byte ran[FOLLOWERS + 1];
bool asleep;
bool woke;

proctype resolver()
{
    byte before, follower;
#ifndef CLOSE_FIRST
    resolved = true;
#endif
#ifdef NO_CLOSING
    atomic { before = word; word = NOBODY };
#else
    atomic { before = word; word = CLOSED };
#endif
    if
    :: before & SLEEPERS -> asleep = false
    :: else
    fi;
#ifdef CLOSE_FIRST
    resolved = true;
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
    bool state;
    bool closed;
    do
    :: state = resolved;
       if
       :: state -> break
       :: else
       fi;
       closed = false;
#ifndef NO_BIT
       atomic { closed = (word == CLOSED); word = word | SLEEPERS };
#endif
       if
       :: closed -> break
       :: else
       fi;
       /* The kernel: if the state is still what it was, sleep. */
       atomic { asleep = (resolved == state) };
       !asleep
    od;
    woke = true
}

init
{
    atomic {
        run resolver();
        run adder(1);
        run adder(2);
        run sleeper();
    }
    timeout -> assert(woke && ran[1] == 1 && ran[2] == 1)
}
