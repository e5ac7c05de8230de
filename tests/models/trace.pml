/* SPDX-License-Identifier: MIT
 *
 * A thread's ring of a trace (alloc/platform/tracing.h): is what is read whole, nested, and of the trace that it is read for?
 *
 * A thread opens and closes slices, and a handler of a signal writes marks wherever it comes. The reader drains the
 * ring, ends the trace and begins another. A record is written in two steps. Built with
 *
 *   -DNO_WRITING  a handler does not look whether its thread is in the midst of a write
 *   -DHEAD_FIRST  a record is published before it is written
 *   -DNO_ROOM     what is written leaves no room for the ends of what is open
 *   -DNO_RESET    a thread does not forget what is open when another trace has begun
 *   -DNO_NUMBER   the reader takes what comes behind any thread's first record
 *   -DLATE_TAIL   the tail by which there was no room is read after the look at the room
 */
#define RECORDS 4
#define SLICES 3
#define HANDLERS 2

#define THREAD 1
#define BEGIN 2
#define END 3
#define MARK 4

byte first[RECORDS];
byte second[RECORDS];
byte number[RECORDS]; /* of the trace, in THREAD; and for the assertion in all */
byte head, tail;
byte epoch = 1;
bool ended;

byte ring_epoch, open, handled;
byte full_at = 255; /* the tail by which no slice had room; none is as large as this */
bool writing;

#define ROOM (RECORDS - (head - tail))

#ifdef NO_ROOM
#define ENDS 0
#else
#define ENDS open
#endif

/* At most so often, and nothing interrupts it. */
inline handler()
{
    if
    :: handled < HANDLERS ->
        handled++;
        atomic { seen = epoch };
        if
#ifdef NO_WRITING
        :: seen != 0 && ring_epoch == seen && ROOM >= 1 + ENDS ->
#else
        :: seen != 0 && !writing && ring_epoch == seen && ROOM >= 1 + ENDS ->
#endif
            first[head % RECORDS] = MARK;
            second[head % RECORDS] = MARK;
            number[head % RECORDS] = ring_epoch;
            head++
        :: else -> skip /* lost */
        fi
    :: true -> skip
    fi
}

inline put(what)
{
#ifdef HEAD_FIRST
    head++;
    at = head - 1;
#else
    at = head;
#endif
    first[at % RECORDS] = what;
    handler();
    second[at % RECORDS] = what;
    number[at % RECORDS] = ring_epoch;
    handler();
#ifndef HEAD_FIRST
    head = at + 1
#endif
}

/* The thread's first record of the trace. */
inline begin()
{
    if
    :: ring_epoch != now && ROOM >= 3 ->
        old = ring_epoch;
        ring_epoch = now;
        put(THREAD);
#ifndef NO_RESET
        open = 0;
#endif
        full_at = 255
    :: else -> skip
    fi
}

proctype thread()
{
    byte i, at, now, old, seen, known;
    bool is_mine;
    for (i : 1 .. SLICES) {
        is_mine = false;
        atomic { now = epoch };
        if
        :: now != 0 ->
            if
            :: atomic { tail == full_at -> assert(ring_epoch != now || ROOM < 2 + open) } /* lost at a look */
            :: else ->
                writing = true;
                handler();
                begin();
                known = tail;
                if
#ifdef NO_ROOM
                :: ring_epoch == now && RECORDS - (head - known) >= 1 ->
#else
                :: ring_epoch == now && RECORDS - (head - known) >= 2 + open ->
#endif
                    open++;
                    is_mine = true;
                    put(BEGIN)
                :: else -> /* lost, and its end with it */
                    if
#ifdef LATE_TAIL
                    :: ring_epoch == now -> full_at = tail
#else
                    :: ring_epoch == now -> full_at = known
#endif
                    :: else -> skip
                    fi
                fi;
                writing = false
            fi
        :: else -> skip
        fi;
        handler();
        handler();
        atomic { now = epoch };
        if
        :: now != 0 && ring_epoch != now ->
            writing = true;
            begin(); /* another mark */
            writing = false
        :: else -> skip
        fi;
        atomic { now = epoch };
        if
        :: now != 0 && ring_epoch == now && open > 0 && is_mine ->
            writing = true;
            handler();
            open--;
            if
            :: ROOM >= 1 -> put(END)
            :: else -> assert(false) /* an end has no room */
            fi;
            writing = false
        :: else -> skip
        fi
    }
    ended = true
}

proctype reader()
{
    byte reads = 1, limit, read_open;
    bool inside, last;
    do
    :: last = ended;
       limit = head;
       do
       :: tail != limit ->
           assert(first[tail % RECORDS] == second[tail % RECORDS]);
           if
           :: first[tail % RECORDS] == THREAD ->
#ifdef NO_NUMBER
               inside = true;
#else
               inside = number[tail % RECORDS] == reads;
#endif
               read_open = 0
           :: first[tail % RECORDS] != THREAD && inside ->
               assert(number[tail % RECORDS] == reads);
               if
               :: first[tail % RECORDS] == BEGIN -> read_open++
               :: first[tail % RECORDS] == END ->
                   assert(read_open > 0);
                   read_open--
               :: else -> skip
               fi
           :: else -> skip
           fi;
           tail++
       :: else -> break
       od;
       if
       :: last -> break
       :: else -> skip
       fi
    :: reads == 1 -> /* the trace ends, with whatever is still in the ring; and another one begins */
       epoch = 0;
       reads = 2;
       inside = false;
       read_open = 0;
       epoch = 2
    od;
    assert(!inside || read_open == 0)
}

init
{
    atomic { run thread(); run reader() }
}
