/* SPDX-License-Identifier: MIT
 *
 * Chores: what the event loop has done elsewhere because it would block: reading files, writing profiles. Each is a
 * task without limits of a pool of their own; its end comes back as a completion. */
#ifndef SERVER_CHORE_H
#define SERVER_CHORE_H

#include "server.h"

/* The beginning of a record of the caller's, which lives until done has been called. */
struct chore {
    struct arrival arrival; /* first: what its completion points to */
    struct server *server;
    stint_fn *run;                              /* with the record; what it leaves is the process's if it is Ok */
    void (*done)(struct chore *chore, bool ok); /* on the loop */
};

/* The loop. 0; or as stint_submit: then done will not be called. */
int chore_begin(struct server *server, struct chore *chore);

#endif
