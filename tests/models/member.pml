/* SPDX-License-Identifier: MIT
 *
 * The members of families (alloc/scope/share.c): is each heap ended once, and by its own thread; is each member freed once, and
 * never touched after?
 *
 * A task's thread, which decides, and two threads that keep a member each. Those collect what has been decided, also
 * where they are about to end. Built with
 *
 *   -DNO_WAIT      a thread that ends does not wait for the mail: a heap is never ended
 *   -DLOOKS_AGAIN  the task's thread reads a member that it has put into the mail, to go on to the next: it may be freed
 */
#define MEMBERS 2

bool decided[MEMBERS];
bool in_mail[MEMBERS];
byte freed[MEMBERS];
byte heaps_ended[MEMBERS];
byte done;

inline touch(m)
{
    assert(freed[m] == 0)
}

inline collect(m)
{
    atomic { in_mail[m] -> in_mail[m] = false };
    touch(m);
    assert(decided[m]);
    heaps_ended[m]++;
    freed[m]++
}

proctype task()
{
    byte m = 0;
    do
    :: m < MEMBERS ->
       touch(m);
       decided[m] = true;
       in_mail[m] = true;
#ifdef LOOKS_AGAIN
       touch(m);
#endif
       m++
    :: else -> break
    od;
    done++
}

proctype thread(byte m)
{
    if
    :: collect(m)
#ifdef NO_WAIT
    :: !in_mail[m] -> skip
#endif
    fi;
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
