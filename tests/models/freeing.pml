/* SPDX-License-Identifier: MIT
 *
 * Ending a heap that others free in (alloc/rollback/free.h): is nobody left in it?
 *
 * Two threads free a block of the heap each, and go on to free others; whoever frees the last takes the page off and has
 * a last look at the heap. Another one frees blocks of no interest here all the time. The owner ends the heap when it has
 * seen it without a page and has looked at the three records; the last one's number is changed all the time. Built with
 *
 *   -DTELLS_LATE   a thread makes its number odd only when it has freed
 *   -DNO_LOOK      the owner ends the heap when it has seen it without a page
 *   -DLOOKS_FIRST  the owner looks at the records before it has seen the heap without a page
 *   -DLEAVES_EARLY a thread makes its number even before its last look
 */
#define FREERS 3

byte number[FREERS];
byte blocks = 2;
bool has_page = true;
bool ended;

inline tell(self)
{
    number[self] = (number[self] + 1) % 8
}

proctype freer(byte self)
{
    bool last;
#ifndef TELLS_LATE
    tell(self);
#endif
    atomic { blocks--; last = blocks == 0 };
#ifdef TELLS_LATE
    tell(self);
#endif
    if
    :: last -> has_page = false
    :: else -> skip
    fi;
#ifdef LEAVES_EARLY
    tell(self);
#endif
    assert(!ended); /* the last look; the heap's record is still there */
#ifndef LEAVES_EARLY
    tell(self);
#endif
    tell(self); /* another block */
    tell(self)
}

proctype other()
{
    byte i;
    for (i : 1 .. 3) {
        tell(2);
        tell(2)
    }
}

inline look_at_all()
{
    for (i : 0 .. FREERS - 1) {
        seen = number[i];
        if
        :: seen % 2 == 1 -> number[i] != seen
        :: else -> skip
        fi
    }
}

proctype owner()
{
    byte i;
    byte seen;
#ifdef LOOKS_FIRST
    look_at_all();
#endif
    !has_page;
#if !defined(NO_LOOK) && !defined(LOOKS_FIRST)
    look_at_all();
#endif
    ended = true
}

init
{
    atomic {
        run freer(0);
        run freer(1);
        run other();
        run owner()
    }
}
