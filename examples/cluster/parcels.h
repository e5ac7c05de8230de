/* SPDX-License-Identifier: MIT
 *
 * The files that are to be sent, each with the id of its job: the name of the run and a hash of what it is. Files that
 * are the same are one job. Which thread may touch what of a parcel is said in send.h. */
#ifndef CLUSTER_PARCELS_H
#define CLUSTER_PARCELS_H

#include "paths.h"
#include "record.h"

#define PARCEL_HASH 32 /* characters: 128 bits of SHA-256 */

typedef enum parcel_state {
    PARCEL_WAITING, /* to be sent */
    PARCEL_SENDING, /* no server has confirmed it yet */
    PARCEL_SENT,
    PARCEL_DONE, /* the record is there */
} parcel_state;

struct parcel {
    const paths_file *file;
    struct parcel *same; /* the first of those with this content; it alone is sent */
    char hash[PARCEL_HASH + 1];
    parcel_state state;
    struct record record;
};

struct parcels {
    struct parcel *list; /* in the order of the files */
    size_t count;
    struct parcel **by_hash; /* the first ones alone, sorted */
    size_t different;
};

/* Read every file once for its hash. One that cannot be read, or that has more than most bytes, is done: its record
 * says why. False: out of memory. */
bool parcels_open(struct parcels *parcels, const struct paths *paths, size_t most);
void parcels_close(struct parcels *parcels);

/* The parcel of this hash; NULL: none is. Any thread. */
struct parcel *parcels_find(const struct parcels *parcels, const char *hash);

/* The whole file and its hash; to be freed. 0, or an errno value; EMSGSIZE: it has more than most bytes, and is not
 * read. Any thread. */
int parcel_read(const paths_file *file, size_t most, char **data, size_t *size, char hash[PARCEL_HASH + 1]);

/* It is done, as parcel_read has failed, which has set the size where it is EMSGSIZE. */
void parcel_fail_unread(struct parcel *parcel, int error, size_t size, size_t most);

/* It is done, and it failed here: error is an errno value; the detail is copied. */
void parcel_fail(struct parcel *parcel, int error, const char *detail);

/* It is done, and was cancelled before any worker had it. */
void parcel_cancel(struct parcel *parcel);

#endif
