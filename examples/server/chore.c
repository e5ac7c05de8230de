/* SPDX-License-Identifier: MIT
 *
 * Chores; see chore.h. */
#include "chore.h"

static void completed(struct arrival *arrival, const stint_outcome *outcome)
{
    struct chore *chore = (struct chore *)(void *)arrival;
    chore->server->chore_count--;
    chore->done(chore, outcome->status == STINT_OK);
}

int chore_begin(struct server *server, struct chore *chore)
{
    stint_options options = STINT_OPTIONS_INIT;
    stint_future *future;
    chore->server = server;
    chore->arrival.done = completed;
    options.name = "chore";
    options.completions = server->completions;
    options.data = &chore->arrival;
    int error = stint_submit(server->chores, chore->run, chore, &options, &future);
    if (error == 0) {
        stint_future_release(future);
        server->chore_count++;
    }
    return error;
}
