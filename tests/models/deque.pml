/* SPDX-License-Identifier: MIT
 *
 * The work-stealing deque (executor/base/queue.c): is each entry taken exactly once?
 *
 * An owner that pushes three entries into two slots and takes in between, and two thieves. The owner's stores of bottom
 * and of slots go, in order, through a store buffer, as they do on x86; the seq_cst store in take waits until it is
 * empty. Every access of top is a step of its own. Built with
 *
 *   -DNO_FENCE  the store of bottom in take does not wait: an entry is taken twice
 */
#define SLOTS 2
#define ENTRIES 3
#define STEALS 2

/* What is in memory. */
byte top;
byte bottom;
byte slots[SLOTS];
byte taken[ENTRIES];

/* The owner's store buffer: first in, first out; a store of bottom, or of a slot. */
chan buffer = [4] of { bool, byte, byte };
#define BOTTOM 0
#define SLOT 1

#define drained (empty(buffer))

inline note(entry)
{
    assert(entry < ENTRIES && taken[entry] == 0);
    taken[entry]++
}

/* The owner reads bottom and slots through its buffer; it is the only one to write them, so it knows them. */
byte own_bottom;
byte own_slots[SLOTS];

inline push(entry, t)
{
    t = top;
    if
    :: own_bottom - t < SLOTS ->
       own_slots[own_bottom % SLOTS] = entry;
       buffer!SLOT, own_bottom % SLOTS, entry;
       own_bottom++;
       buffer!BOTTOM, 0, own_bottom;
       entry++
    :: else
    fi
}

inline take(t)
{
    if
    :: top < own_bottom ->
       own_bottom--;
       buffer!BOTTOM, 0, own_bottom;
#ifndef NO_FENCE
       drained;
#endif
       t = top;
       if
       :: t < own_bottom -> note(own_slots[own_bottom % SLOTS])
       :: else ->
          if
          :: t == own_bottom ->
             /* A compare-and-swap empties the buffer first. */
             drained;
             if
             :: atomic { top == t -> top = t + 1 }; note(own_slots[own_bottom % SLOTS])
             :: top != t -> skip
             fi
          :: else
          fi;
          own_bottom++;
          buffer!BOTTOM, 0, own_bottom
       fi
    :: else
    fi
}

proctype owner()
{
    byte entry;
    byte t;
    do
    :: entry < ENTRIES -> push(entry, t)
    :: take(t)
    :: entry == ENTRIES && own_bottom == top -> break
    od
}

proctype thief()
{
    byte t, b, entry, tries;
    do
    :: tries < STEALS ->
       tries++;
       t = top;
       b = bottom;
       if
       :: t < b ->
          entry = slots[t % SLOTS];
          if
          :: atomic { top == t -> top = t + 1 }; note(entry)
          :: top != t -> skip
          fi
       :: else
       fi
    :: break
    od
}

active proctype memory()
{
    bool what;
    byte where, value;
end_empty:
    do
    :: atomic {
         buffer?what, where, value ->
         if
         :: what == BOTTOM -> bottom = value
         :: what == SLOT -> slots[where] = value
         fi
       }
    od
}

init
{
    byte i;
    atomic {
        run owner();
        run thief();
        run thief();
    }
    timeout ->
    do
    :: i < ENTRIES -> assert(taken[i] == 1); i++
    :: i == ENTRIES -> break
    od
}
