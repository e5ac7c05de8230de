/* SPDX-License-Identifier: MIT
 *
 * A walled task and its children (executor/wall/walled.c, child.c, template.c, inside.c): is it resolved whatever dies,
 * begun once at most, and does nothing wait for what cannot come?
 *
 * A driver asks for a child and offers it the task; where that has died without having read the task it tries another
 * one. It may be interrupted. The template reads requests, forks, which may fail, and tells how its children ended. It
 * may die at any moment: its descriptors are closed, and a moment later its children killed; another one goes on with
 * the requests that were not read. A child may die at any moment, too; and one that has begun the task may lie in the
 * area, and goes on until it is killed. A fork(2) of the program may have a copy of a child's end of the socket: then
 * that is never closed.
 *
 *   -DASKS_AREA     a child had begun if the state in the area says so
 *   -DERROR_FIRST   the driver asks for the socket's error before it asks for what is unread
 *   -DNO_PIPE       the end of a child that has not said hello is seen by its socket alone
 *   -DNO_WITHDRAWAL a driver that finds a child dead does not withdraw the task
 *   -DNO_KILLING    nor kills it, where it had begun
 *   -DNO_PICKING    a child begins what it has read, whatever the state
 *   -DNO_HEARING    an interrupted driver that has withdrawn the task does not look for a hello
 *   -DKEEPS_ENDS    a template that cannot fork keeps what came with the request
 */
#define TRIES 2
#define DEATHS 2

mtype = { IDLE, OFFERED, PICKED, WITHDRAWN };

mtype word[TRIES] = IDLE;
bool asked[TRIES];   /* the request has not been read */
bool held[TRIES];    /* what came with it, by the template */
bool copied;         /* the child's end of the socket, by a fork(2) */
bool alive[TRIES];
bool killed[TRIES];
bool hello[TRIES];
bool answer[TRIES];
bool queued[TRIES];  /* the task, and it has not been read */
bool taken[TRIES];   /* it has been read */
bool error[TRIES];   /* ECONNRESET, which has not been told */
bool closed[TRIES];  /* the child's end of the socket */
bool piped[TRIES];   /* the child's pipe is open, and nothing in it */
bool let_go[TRIES];  /* the program's end of the socket is closed */
byte deaths = DEATHS;
byte begun;
bool rung; /* the driver may be interrupted, at any moment: it is the one that may be late */
bool resolved;

/* By whoever has let go of the child's end: what is unread is told first, then thrown away. */
inline release(c)
{
    if
    :: atomic {
           !asked[c] && !held[c] && !alive[c] && !copied && !closed[c] ->
           closed[c] = true;
           error[c] = queued[c]
       };
       queued[c] = false
    :: else
    fi
}

#define MAY_DIE atomic { killed[c] || deaths > 0 -> alive[c] = false; deaths = (killed[c] -> deaths : deaths - 1) }; goto dead

proctype child(byte c)
{
    if
    :: atomic { !killed[c] -> hello[c] = true }
    :: MAY_DIE
    fi;
    if
    :: atomic { !killed[c] && queued[c] -> queued[c] = false; taken[c] = true }
    :: atomic { !killed[c] && !queued[c] && let_go[c] -> alive[c] = false }; goto dead
    :: MAY_DIE
    fi;
    if
#ifdef NO_PICKING
    :: atomic { !killed[c] -> word[c] = PICKED }
#else
    :: atomic { !killed[c] && word[c] == OFFERED -> word[c] = PICKED }
    :: atomic { !killed[c] && word[c] != OFFERED -> alive[c] = false }; goto dead
#endif
    :: MAY_DIE
    fi;
    if
    :: atomic { !killed[c] -> begun++; assert(begun == 1 && !resolved) }
    :: MAY_DIE
    fi;
    if
    :: atomic { !killed[c] -> word[c] = OFFERED }
    :: atomic { !killed[c] -> answer[c] = true }
    :: MAY_DIE
    fi;
end_goes_on:
    if
    :: MAY_DIE
    fi;
dead:
    release(c)
}

inline end_template()
{
    atomic {
        deaths > 0 && !has_died -> has_died = true;
        deaths--;
        for (i : 0 .. TRIES - 1) {
            gone[i] = !asked[i] && (held[i] || alive[i]);
            held[i] = false;
            piped[i] = piped[i] && asked[i]
        }
    };
    release(0);
    release(1);
    atomic {
        for (i : 0 .. TRIES - 1) {
            killed[i] = killed[i] || gone[i];
            gone[i] = false
        }
        i = 0
    }
}

inline start(c)
{
    atomic { asked[c] -> asked[c] = false; held[c] = true };
    if
    :: end_template()
    :: atomic { true -> alive[c] = true; run child(c) };
       if
       :: end_template()
       :: held[c] = false;
          release(c)
       fi
    :: true ->
#ifndef KEEPS_ENDS
       piped[c] = false;
       held[c] = false;
       release(c)
#endif
    fi
}

#define MAY_REAP(c) (piped[c] && !asked[c] && !held[c] && !alive[c])

proctype template()
{
    byte i;
    bool gone[TRIES];
    bool has_died;
end:
    do
    :: start(0)
    :: start(1)
    :: atomic { MAY_REAP(0) -> piped[0] = false }
    :: atomic { MAY_REAP(1) -> piped[1] = false }
    :: end_template()
    od
}

inline withdraw()
{
    atomic {
        withdrawn = word[c] == OFFERED;
        word[c] = (withdrawn -> WITHDRAWN : word[c])
    }
}

inline hear_error()
{
    atomic { unread = unread || error[c]; error[c] = false }
}

proctype driver()
{
    byte c;
    bool known; /* hello has been heard */
    bool unread;
    bool withdrawn;
    bool is_dead;
    bool is_rung;
again:
    atomic {
        known = false;
        unread = false;
        asked[c] = true;
        piped[c] = true;
        word[c] = OFFERED
    };
    if
    :: atomic { closed[c] -> skip }; goto unbegun
    :: atomic { !closed[c] -> queued[c] = true }
    fi;
end_sleep:
    atomic {
#ifdef NO_PIPE
        (known && !alive[c]) || (hello[c] && !known) || answer[c] || closed[c] || rung ->
        is_dead = known && !alive[c];
#else
        (known && !alive[c]) || (!known && !piped[c]) || (hello[c] && !known) || answer[c] || closed[c] || rung ->
        is_dead = (known -> !alive[c] : !piped[c]);
#endif
        is_rung = rung
    };
    atomic {
        unread = unread || error[c];
        error[c] = false;
        known = known || hello[c]
    };
    if
    :: atomic { answer[c] -> known = true; resolved = true }; goto over /* hello came before it */
    :: atomic { !answer[c] && closed[c] -> skip }; goto ended
    :: atomic { !answer[c] && !closed[c] -> skip }
    fi;
    if
    :: is_dead -> goto ended
    :: !is_dead && is_rung -> goto interrupted
    :: else -> goto end_sleep
    fi;
ended:
#ifdef ASKS_AREA
    atomic { unread = word[c] != PICKED };
#elif defined(ERROR_FIRST)
    withdraw();
    hear_error();
    unread = unread || queued[c];
#else
#ifndef NO_WITHDRAWAL
    withdraw();
#else
    withdrawn = true;
#endif
    unread = unread || queued[c];
    hear_error();
    unread = unread && withdrawn;
#endif
    if
    :: unread -> goto unbegun
    :: else -> assert(taken[c]); /* or it would have been another one's */
#ifndef NO_KILLING
       known = known || hello[c];
       if
       :: known -> killed[c] = true; !alive[c]
       :: else
       fi;
#endif
       resolved = true;
       goto over
    fi;
unbegun:
    let_go[c] = true;
    c++;
    if
    :: c < TRIES -> goto again
    :: else -> c = TRIES - 1; resolved = true; goto over
    fi;
interrupted:
    if
    :: known
    :: else -> withdraw();
#ifdef NO_HEARING
       known = !withdrawn && hello[c]
#else
       known = hello[c]
#endif
    fi;
    if
    :: known -> killed[c] = true; !alive[c]
    :: else
    fi;
    resolved = true;
over:
    if
    :: known -> killed[c] = true
    :: else
    fi;
    let_go[c] = true
}

/* Nothing happens any more: unless a task goes on for ever, and nobody interrupts it, all is over. */
proctype watch()
{
    timeout ->
    if
    :: !resolved -> assert(!rung && begun == 1 && (alive[0] || alive[1]))
    :: else -> assert(!alive[0] && !alive[1])
    fi
}

init
{
    atomic {
        run template();
        run driver();
        run watch();
        if
        :: rung = true
        :: true
        fi;
        if
        :: copied = true
        :: true
        fi
    }
}
