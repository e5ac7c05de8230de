/* SPDX-License-Identifier: MIT
 *
 * Requests for samples (alloc/platform/thread.h): does every flag reach the thread that it is for, although that looks at flags only
 * when the count of requests has changed?
 *
 * Two askers, each with a flag; an owner who makes sample points by allocations, when its limit is 0, and by checkpoints, which
 * look only where the count is not the one that it has looked at. In the end both flags have been seen, or the limit is 0: the
 * next allocation is a sample point. And what was asked for before a checkpoint began is seen in it. The owner's store of
 * its limit and an asker's store of its flag go to a store buffer first, from where they reach memory at any later time;
 * seq_cst: the thread waits until that has happened.
 *
 *   -DCOUNTS_FIRST  an asker counts before it sets its flag: a checkpoint in between remembers the count for good
 *   -DLOOKS_FIRST   the owner reads the flags before the count: the same
 *   -DLIMIT_LAST    the owner stores its limit after it has looked: a request is overwritten
 *   -DNO_COUNT      an asker does not count: checkpoints do not see it
 *   -DWEAK_LIMIT    the owner does not wait for its limit before it looks: a request is overwritten
 *   -DWEAK_FLAG     an asker does not wait for its flag: the owner looks in vain, and no request comes after that
 */
#define ASKERS 2
#define POINTS 3

bool flag[ASKERS];
bool asked[ASKERS];
bool seen[ASKERS];
byte count = 1;
byte looked;
bool limited; /* the limit is not 0 */
bool flag_on_its_way[ASKERS];
bool limit_on_its_way;

inline set_flag(me)
{
    flag_on_its_way[me] = true;
#ifndef WEAK_FLAG
    !flag_on_its_way[me]
#endif
}

inline set_limit()
{
    limit_on_its_way = true;
#ifndef WEAK_LIMIT
    !limit_on_its_way
#endif
}

inline add_count()
{
#ifndef NO_COUNT
    count++
#else
    skip
#endif
}

proctype asker(byte me)
{
#ifdef COUNTS_FIRST
    add_count();
    set_flag(me);
#else
    set_flag(me);
    add_count();
#endif
    limited = false;
    asked[me] = true
}

inline look_at_flags()
{
    i = 0;
    do
    :: i < ASKERS ->
       if
       :: flag[i] -> seen[i] = true
       :: else
       fi;
       i++
    :: else -> break
    od
}

inline look()
{
#ifdef LOOKS_FIRST
    look_at_flags();
    before = count;
#else
    before = count;
    look_at_flags();
#endif
    looked = before
}

inline sample_point()
{
#ifdef LIMIT_LAST
    look();
    set_limit()
#else
    set_limit();
    look()
#endif
}

inline checkpoint()
{
    d_step { due[0] = asked[0]; due[1] = asked[1] };
    if
    :: count != looked -> look()
    :: else
    fi;
    assert(!due[0] || seen[0]);
    assert(!due[1] || seen[1])
}

proctype owner()
{
    byte i, before, points;
    bool due[ASKERS];
    look();
    do
    :: points < POINTS && !limited && !limit_on_its_way -> sample_point(); points++
    :: points < POINTS -> checkpoint(); points++
    :: points == POINTS -> break
    od
}

/* The store buffers reach memory, each entry at its own time. */
active proctype memory()
{
end_empty:
    do
    :: atomic { flag_on_its_way[0] -> flag_on_its_way[0] = false; flag[0] = true }
    :: atomic { flag_on_its_way[1] -> flag_on_its_way[1] = false; flag[1] = true }
    :: atomic { limit_on_its_way -> limit_on_its_way = false; limited = true }
    od
}

init
{
    atomic {
        run asker(0);
        run asker(1);
        run owner();
    }
    timeout -> assert(!limited || (seen[0] && seen[1]));
    assert(looked != count || (seen[0] && seen[1]))
}
