/* SPDX-License-Identifier: MIT
 *
 * The members of families (alloc/scope/share.c): is each heap ended once, and by its own thread; is each member freed once, and
 * never touched after?
 *
 * A task's thread, which decides, and two threads that keep a member each. Those collect what has been decided, or end
 * meanwhile. Built with
 *
 *   -DNO_SWAP      a thread that ends does not compare the state before it writes it: a member is freed twice
 *   -DNO_WAIT      it does not wait for the mail when its member is decided: a heap is never ended
 *   -DLOOKS_AGAIN  the task's thread reads a member that it has put into the mail, to go on to the next: it may be freed
 */
#define MEMBERS 2

mtype = { OPEN, DECIDED, ABANDONED };
mtype state[MEMBERS] = OPEN;
bool in_mail[MEMBERS];
byte freed[MEMBERS];
byte heaps_ended[MEMBERS];
bool thread_gone[MEMBERS];
byte done;

inline touch(m)
{
    assert(freed[m] == 0)
}

inline collect(m)
{
    atomic { in_mail[m] -> in_mail[m] = false };
    touch(m);
    assert(state[m] == DECIDED);
    heaps_ended[m]++;
    freed[m]++
}

proctype task()
{
    byte m = 0;
    do
    :: m < MEMBERS ->
       touch(m);
       if
       :: atomic { state[m] == OPEN -> state[m] = DECIDED };
          assert(!thread_gone[m]);
          in_mail[m] = true;
#ifdef LOOKS_AGAIN
          touch(m)
#endif
       :: state[m] == ABANDONED -> freed[m]++
#ifdef NO_SWAP
       :: state[m] == DECIDED -> freed[m]++
#endif
       fi;
       m++
    :: else -> break
    od;
    done++
}

proctype thread(byte m)
{
    if
    :: collect(m)
    :: /* it ends, at any moment: the heaps are taken out first, as the member may go with the swap */
       touch(m);
#ifdef NO_SWAP
       bool was_open = state[m] == OPEN;
       state[m] = ABANDONED;
       if
       :: was_open -> heaps_ended[m]++
       :: else -> collect(m)
       fi
#else
       if
       :: atomic { state[m] == OPEN -> state[m] = ABANDONED }; heaps_ended[m]++
       :: state[m] == DECIDED ->
#ifdef NO_WAIT
          skip
#else
          collect(m)
#endif
       fi
#endif
    fi;
    thread_gone[m] = true;
    done++
}

init
{
    atomic { run task(); run thread(0); run thread(1) };
    done == MEMBERS + 1;
    byte m = 0;
    do
    :: m < MEMBERS -> assert(freed[m] == 1); assert(heaps_ended[m] == 1); m++
    :: else -> break
    od
}
