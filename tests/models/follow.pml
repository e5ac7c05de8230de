/* SPDX-License-Identifier: MIT
 *
 * Followers (executor/task/continuation.h): is each run exactly once, those of one thread in its order and one at a time, and does
 * nobody sleep on?
 *
 * One resolver, a thread that adds two continuations one after the other, one that adds a continuation and takes it back, one that
 * sleeps until the future has resolved, and one that rings the bell for another reason. The word only gains bits, by
 * or-ins, which have one order; the list is under a lock; the bell is compared by the kernel in the same step in which it
 * puts a sleeper on its list. Spin's memory is sequentially consistent; that is enough, as a thread passes one of these
 * steps between any two accesses whose order matters.
 *
 *   -DNO_BIT        the sleeper does not set its bit: it sleeps on
 *   -DNO_BELL       the resolver wakes without changing the bell: the sleeper misses it
 *   -DRING_FIRST    the resolver rings before it has stored the state: the same
 *   -DEARLY_BIT     who follows sets its bit before it takes the lock: the resolver finds the list empty, and nobody tells
 *   -DNO_TELLER     who comes late runs its record itself, though somebody is telling: out of order
 *   -DLEAVES_FIRST  a teller that has found the list empty is one until later: who came in between is never told
 */
#define SLEEPERS 1
#define FOLLOWED 2
#define RESOLVED 4
#define FOLLOWERS 3

byte word;
byte bell;
bool resolved;
bool asleep;
bool woke;

bool locked;
bool telling;
chan list = [FOLLOWERS] of { byte };

byte ran[FOLLOWERS + 1];
byte taken;
bool running;

inline lock()
{
    atomic { !locked; locked = true }
}

inline unlock()
{
    locked = false
}

inline ring()
{
#ifndef NO_BELL
    bell++;
#endif
    asleep = false
}

inline run_record(record)
{
    assert(!running);
    running = true;
    assert(record != 2 || ran[1] == 1);
    ran[record]++;
    running = false
}

inline tell_all(record)
{
    do
    :: lock();
       if
       :: list?[record] -> list?record; unlock(); run_record(record)
       :: empty(list) ->
#ifdef LEAVES_FIRST
          unlock();
          telling = false;
#else
          telling = false;
          unlock();
#endif
          break
       fi
    od
}

inline become_teller(tells)
{
    tells = nempty(list) && !telling;
    telling = telling || tells
}

proctype resolver()
{
    byte before, record;
    bool tells;
#ifndef RING_FIRST
    resolved = true;
#endif
    atomic { before = word; word = word | RESOLVED };
    if
    :: before & SLEEPERS -> ring()
    :: else
    fi;
#ifdef RING_FIRST
    resolved = true;
#endif
    if
    :: before & FOLLOWED ->
       lock();
       become_teller(tells);
       unlock();
       if
       :: tells -> tell_all(record)
       :: else
       fi
    :: else
    fi
}

inline follow(me, before, tells, record)
{
#ifdef EARLY_BIT
    atomic { before = word; word = word | FOLLOWED };
    lock();
#else
    lock();
    atomic { before = word; word = word | FOLLOWED };
#endif
#ifdef NO_TELLER
    if
    :: before & RESOLVED -> unlock(); run_record(me)
    :: else -> list!me; unlock()
    fi
#else
    list!me;
    tells = false;
    if
    :: before & RESOLVED -> become_teller(tells)
    :: else
    fi;
    unlock();
    if
    :: tells -> tell_all(record)
    :: else
    fi
#endif
}

proctype adder()
{
    byte before, record;
    bool tells;
    follow(1, before, tells, record);
    follow(2, before, tells, record)
}

proctype taker()
{
    byte before, record;
    bool tells;
    follow(3, before, tells, record);
    lock();
    if
    :: list??[3] -> list??3; taken = 1
    :: else
    fi;
    unlock()
}

proctype sleeper()
{
    byte value;
    bool over;
#ifdef NO_BIT
    over = resolved;
#else
    atomic { over = ((word & RESOLVED) != 0); word = word | SLEEPERS };
#endif
    do
    :: over || resolved -> break
    :: else ->
       value = bell;
       if
       :: resolved -> break
       :: else
       fi;
       /* The kernel: if the bell is still what it was, sleep. */
       atomic { asleep = (bell == value) };
       !asleep
    od;
    woke = true
}

proctype nudger()
{
    bell++;
    asleep = false
}

init
{
    atomic {
        run resolver();
        run adder();
        run taker();
        run sleeper();
        run nudger();
    }
    timeout -> assert(woke && ran[1] == 1 && ran[2] == 1 && ran[3] + taken == 1)
}
