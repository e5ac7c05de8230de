/* SPDX-License-Identifier: MIT
 *
 * The allocation limit of a family (alloc/meter/shared_budget.c): is a task stopped if and only if it charges more than its
 * limit, whatever its threads do at the same time?
 *
 * Two members, each of which charges up to so many units one by one, out of grants; each changes a counter in one step, as
 * the code does by a compare-and-swap. Built with
 *
 *   -DBY_GRANTS   a draw is refused when the grants pass the limit: a task is stopped below it
 *   -DNO_SETTLE   what members have used of their grants is not looked at when they settle: a limit is passed unnoticed
 *   -DNO_CORRECTION  a member adds what it was granted, not what it used: a task is stopped below its limit
 */
#define MEMBERS 2
#define LIMIT 5
#define GRANT 2
#define MAX 4

byte used;    /* what the family knows */
byte granted;
byte charged; /* the truth */
byte refused;
bool tripped;
byte done;

proctype member()
{
    byte own = 0;       /* charged */
    byte known = 0;     /* of that, by the family */
    byte end = 0;       /* of the grants */
    bool stopped;
    byte amount;
    select (amount : 0 .. MAX);
    do
    :: own < amount && !tripped ->
       if
       :: own < end -> skip
       :: else ->
          atomic {
#ifdef BY_GRANTS
             if
             :: granted + 1 > LIMIT -> refused++; stopped = true; tripped = true
             :: else -> skip
             fi;
#endif
             if
             :: stopped -> skip
             :: !stopped && used + (own + 1 - known) > LIMIT -> refused++; stopped = true; tripped = true
             :: else -> used = used + (own + 1 - known); known = own + 1
             fi
          };
          if
          :: stopped -> break
          :: else -> skip
          fi;
          atomic {
             if
             :: granted + 1 + GRANT <= LIMIT -> granted = granted + 1 + GRANT; end = end + 1 + GRANT
             :: else -> granted = granted + 1; end = end + 1
             fi
#ifdef NO_CORRECTION
             ; used = used + (end - known); known = end
#endif
          }
       fi;
       atomic { own++; charged++ }
    :: else -> break
    od;
    atomic {
#ifdef NO_CORRECTION
       skip;
#else
       used = used + own - known;
#endif
       granted = granted - (end - own)
    };
#ifndef NO_SETTLE
    if
    :: used > LIMIT -> tripped = true
    :: else -> skip
    fi;
#endif
    done++
}

init
{
    atomic { run member(); run member() };
    done == MEMBERS;
    assert(tripped == (charged + refused > LIMIT));
    assert(charged <= LIMIT + (MEMBERS - 1) * GRANT)
}
