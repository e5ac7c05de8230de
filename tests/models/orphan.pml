/* SPDX-License-Identifier: MIT
 *
 * Orphaned shares (alloc/scope/share.c): does whoever takes one, to use it again or to measure it, have it for itself;
 * and does the task's thread find it where it can be taken over, with all that was left, when all others have ended?
 *
 * A thread of the task's that ends, one that begins and looks for a share in which nothing is left, two that measure.
 * Built with
 *
 *   -DNO_SWAP       who measures looks at the state before it writes it: two have the share
 *   -DPUTS_FIRST    it puts the share back before it is done with it: two have the share
 *   -DNO_PUTTING    one that begins keeps a share in which something is left, and makes another: that is lost
 *   -DNO_AWAITING   the task's thread does not wait for those that measure: it finds the share taken
 */
#define OTHERS 4

mtype = { OPEN, ORPHANED };
mtype state = OPEN;
byte inside = 1; /* who have the share */
byte left;       /* there, */
byte made;       /* and in all */
byte known;      /* as it was measured last */
byte ended;

inline take()
{
    inside++;
    assert(inside == 1)
}

inline put_back()
{
#ifdef PUTS_FIRST
    state = ORPHANED;
    inside--
#else
    inside--;
    state = ORPHANED
#endif
}

inline leave_something_or_nothing()
{
    if
    :: left++; made++
    :: skip
    fi;
    known = left
}

proctype first()
{
    leave_something_or_nothing();
    inside--;
    state = ORPHANED;
    ended++
}

proctype next()
{
    bool is_taken = false;
    if
    :: atomic { state == ORPHANED -> state = OPEN }; is_taken = true
    :: true /* it came too early, and makes one of its own */
    fi;
    if
    :: is_taken ->
       take();
       if
       :: left == 0 ->
          leave_something_or_nothing();
          put_back()
       :: else ->
#ifdef NO_PUTTING
          inside--
#else
          put_back()
#endif
       fi
    :: else
    fi;
    ended++
}

proctype measurer()
{
    if
#ifdef NO_SWAP
    :: state == ORPHANED -> state = OPEN;
#else
    :: atomic { state == ORPHANED -> state = OPEN };
#endif
       take();
       known = left;
       put_back()
    :: true
    fi;
    ended++
}

init
{
    atomic { run first(); run next(); run measurer(); run measurer() };
#ifdef NO_AWAITING
    ended >= 1;
    state == ORPHANED || ended < OTHERS;
#else
    ended == OTHERS;
#endif
    assert(state == ORPHANED);
    take();
    assert(left == made);
    assert(known == left)
}
