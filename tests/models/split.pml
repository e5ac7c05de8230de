/* SPDX-License-Identifier: MIT
 *
 * The split deque (executor/base/split.c): does each fork run exactly once?
 *
 * An owner that makes three forks in three slots, shares them and joins them in any order, and two thieves. What the
 * owner writes into its slots becomes visible in any order, and at the latest with a release: its changes of the bounds,
 * which are one word. Every access of that word is a step of its own.
 *
 * What a thief returns it writes into the slot, as typed forks do, and the owner reads it there. Built with
 *
 *   -DNO_RELEASE  sharing does not make the slots visible first: a thief runs something else
 *   -DNO_SWAP     the owner takes back by a load and a store in place of a compare-and-swap: a fork runs twice
 *   -DNO_WAIT     the owner gives a stolen fork's slot back before its thief has ended: a thief runs something else
 *   -DEND_FIRST   a thief says that it has ended before it has written its result: the owner reads something else
 *   -DHOLES       sharing does not stop at holes: a thief finds one, or what came after it
 *   -DEARLY       a thief reads the slot before it moves top, and there is no tag: a fork runs twice
 */
#define SLOTS 3
#define FORKS 3
#define STEALS 2
#define NONE 255
#define RESULT_OF(fork) (100 + (fork))

/* What is in memory. */
byte top;
byte split;
byte tag;
byte slots[SLOTS];
byte ran[FORKS];
bool ended[FORKS];

/* The owner's own: what it knows of these, and which of its writes are not visible yet. */
byte own_slots[SLOTS];
bool pending[SLOTS];
byte own_split;
byte depth;

inline execute(fork)
{
    assert(fork < FORKS && ran[fork] == 0);
    ran[fork]++
}

inline write_slot(slot, fork)
{
    atomic {
        own_slots[slot] = fork;
        pending[slot] = true
    }
}

/* Within an atomic step. */
inline release()
{
    i = 0;
    do
    :: i < SLOTS -> if :: pending[i] -> slots[i] = own_slots[i]; pending[i] = false :: else fi; i++
    :: else -> break
    od
}

inline load_bounds(t, s, g)
{
    atomic {
        t = top;
        s = split;
        g = tag
    }
}

#ifdef EARLY
#define same(t, s, g) (top == t && split == s)
#else
#define same(t, s, g) (top == t && split == s && tag == g)
#endif

/* No thief changes the word while top == split. */
inline set_bounds(both)
{
    atomic {
        release();
        top = both;
        split = both;
        tag++
    };
    own_split = both
}

inline share()
{
    load_bounds(t, s, g);
    if
    :: t < s || own_split >= depth
    :: else ->
       p = own_split;
       d_step {
           do
           :: p < depth && own_slots[p] == NONE -> p++
           :: else -> break
           od
       };
       if
       :: p > own_split -> set_bounds(p)
       :: else
       fi;
       d_step {
           do
#ifdef HOLES
           :: p < depth -> p++
#else
           :: p < depth && own_slots[p] != NONE -> p++
#endif
           :: else -> break
           od
       };
       if
       :: p > own_split ->
          p = own_split + (p - own_split + 1) / 2;
          /* Nothing is public: the first attempt succeeds. */
          atomic {
#ifndef NO_RELEASE
              release();
#endif
              split = p;
              tag++
          };
          own_split = p
       :: else
       fi
    fi
}

inline leave_hole(slot)
{
    write_slot(slot, NONE);
    d_step {
        do
        :: depth > 0 && own_slots[depth - 1] == NONE -> depth--
        :: else -> break
        od
    };
    if
    :: depth < own_split -> set_bounds(depth)
    :: else
    fi
}

inline join(slot)
{
    stolen = false;
    if
    :: slot < own_split ->
       do
       :: load_bounds(t, s, g);
          if
          :: t > slot -> stolen = true; break
          :: else ->
             p = t + (slot - t) / 2;
#ifdef NO_SWAP
             atomic { release(); split = p; tag++ };
             own_split = p;
             break
#else
             atomic {
                 if
                 :: same(t, s, g) -> release(); split = p; tag++; own_split = p; break
                 :: else
                 fi
             }
#endif
          fi
       od
    :: else
    fi;
    if
    :: stolen ->
#ifndef NO_WAIT
       ended[own_slots[slot]];
       assert(slots[slot] == RESULT_OF(own_slots[slot]))
#endif
       skip
    :: else -> execute(own_slots[slot])
    fi;
    leave_hole(slot)
}

/* Fewer states. */
inline forget_locals()
{
    d_step {
        slot = 0;
        t = 0;
        s = 0;
        g = 0;
        p = 0;
        i = 0;
        stolen = false
    }
}

proctype owner()
{
    byte fork, slot, t, s, g, p, i;
    bool stolen;
    do
    :: fork < FORKS && depth < SLOTS ->
       atomic {
           write_slot(depth, fork);
           depth++;
           fork++
       }
    :: share(); forget_locals()
    :: depth > 0 ->
       if
       :: own_slots[0] != NONE -> slot = 0
       :: depth > 1 && own_slots[1] != NONE -> slot = 1
       :: depth > 2 && own_slots[2] != NONE -> slot = 2
       fi;
       join(slot);
       forget_locals()
    :: fork == FORKS && depth == 0 -> break
    od
}

proctype thief()
{
    byte t, s, g, fork, tries;
    bool won;
    do
    :: tries < STEALS ->
       tries++;
       load_bounds(t, s, g);
       won = false;
       if
       :: t < s ->
#ifdef EARLY
          fork = slots[t];
#endif
          atomic {
              if
              :: same(t, s, g) -> top = t + 1; won = true
              :: else
              fi
          };
          if
          :: won ->
#ifndef EARLY
             fork = slots[t];
#endif
             execute(fork);
#ifdef END_FIRST
             ended[fork] = true;
             slots[t] = RESULT_OF(fork)
#else
             slots[t] = RESULT_OF(fork);
             ended[fork] = true
#endif
          :: else
          fi
       :: else
       fi;
       d_step { t = 0; s = 0; g = 0; fork = 0; won = false }
    :: break
    od
}

/* What is pending becomes visible by itself. */
active proctype memory()
{
end_idle:
    do
    :: atomic { pending[0] -> slots[0] = own_slots[0]; pending[0] = false }
    :: atomic { pending[1] -> slots[1] = own_slots[1]; pending[1] = false }
    :: atomic { pending[2] -> slots[2] = own_slots[2]; pending[2] = false }
    od
}

init
{
    byte f;
    atomic {
        slots[0] = NONE;
        slots[1] = NONE;
        slots[2] = NONE;
        run owner();
        run thief();
        run thief()
    };
    timeout ->
    do
    :: f < FORKS -> assert(ran[f] == 1); f++
    :: f == FORKS -> break
    od
}
