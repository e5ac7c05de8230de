/* SPDX-License-Identifier: MIT
 *
 * The files that are to be sent; see parcels.h. */
#include "parcels.h"
#include "contents.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What a file is: its kind and its content. */
static int hash_of(parse_kind kind, const char *data, size_t size, char hash[PARCEL_HASH + 1])
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    const char *name = parse_kind_name(kind);
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    bool done = context && EVP_DigestInit_ex(context, EVP_sha256(), NULL) &&
                EVP_DigestUpdate(context, name, strlen(name) + 1) && EVP_DigestUpdate(context, data, size) &&
                EVP_DigestFinal_ex(context, digest, NULL);
    EVP_MD_CTX_free(context);
    for (int i = 0; done && i < PARCEL_HASH / 2; i++)
        sprintf(hash + 2 * i, "%02x", digest[i]);
    return done ? 0 : ENOMEM;
}

int parcel_read(const paths_file *file, size_t most, char **data, size_t *size, char hash[PARCEL_HASH + 1])
{
    *data = NULL;
    if (file->error)
        return file->error;
    int descriptor = open(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (descriptor < 0)
        return errno;
    int error = contents_read(descriptor, most, data, size);
    close(descriptor);
    if (!error)
        error = hash_of(file->kind, *data, *size, hash);
    if (error) {
        free(*data);
        *data = NULL;
    }
    return error;
}

static void finish(struct parcel *parcel, stint_outcome outcome, const char *detail)
{
    parcel->record = (struct record){ .outcome = outcome, .detail = strdup(detail), .worker = strdup("") };
    parcel->state = PARCEL_DONE;
}

void parcel_fail(struct parcel *parcel, int error, const char *detail)
{
    finish(parcel, (stint_outcome){ .status = STINT_ERROR, .reason = STINT_REASON_FAILED, .error = error }, detail);
}

void parcel_cancel(struct parcel *parcel)
{
    finish(parcel, (stint_outcome){ .status = STINT_CANCELLED, .reason = STINT_REASON_TOKEN, .error = ECANCELED }, "");
}

void parcel_fail_unread(struct parcel *parcel, int error, size_t size, size_t most)
{
    char detail[160];
    if (error == EMSGSIZE)
        snprintf(detail, sizeof detail, "%zu bytes; the servers let a message have %zu (max_payload)", size, most);
    else
        snprintf(detail, sizeof detail, "cannot read it: %s", strerror(error));
    parcel_fail(parcel, error, detail);
}

static void fill(struct parcel *parcel, const paths_file *file, size_t most)
{
    char *data;
    size_t size = 0;
    *parcel = (struct parcel){ .file = file };
    int error = parcel_read(file, most, &data, &size, parcel->hash);
    free(data);
    if (error)
        parcel_fail_unread(parcel, error, size, most);
}

/* By hash, and of the same in the order of the list. */
static int compare(const void *a, const void *b)
{
    const struct parcel *one = *(struct parcel *const *)a, *other = *(struct parcel *const *)b;
    int order = strcmp(one->hash, other->hash);
    return order ? order : (one > other) - (one < other);
}

static void sort(struct parcels *parcels)
{
    for (size_t i = 0; i < parcels->count; i++) {
        if (parcels->list[i].state != PARCEL_DONE)
            parcels->by_hash[parcels->different++] = &parcels->list[i];
    }
    qsort(parcels->by_hash, parcels->different, sizeof parcels->by_hash[0], compare);
    size_t first = 0;
    for (size_t i = 0; i < parcels->different; i++) {
        if (strcmp(parcels->by_hash[i]->hash, parcels->by_hash[first]->hash) != 0)
            parcels->by_hash[++first] = parcels->by_hash[i];
        parcels->by_hash[i]->same = parcels->by_hash[first];
    }
    parcels->different = parcels->different ? first + 1 : 0;
}

bool parcels_open(struct parcels *parcels, const struct paths *paths, size_t most)
{
    *parcels = (struct parcels){ .count = paths->count };
    parcels->list = calloc(paths->count + 1, sizeof parcels->list[0]);
    parcels->by_hash = calloc(paths->count + 1, sizeof(struct parcel *));
    if (!parcels->list || !parcels->by_hash) {
        free(parcels->list);
        free(parcels->by_hash);
        return false;
    }
    for (size_t i = 0; i < paths->count; i++)
        fill(&parcels->list[i], &paths->files[i], most);
    sort(parcels);
    return true;
}

void parcels_close(struct parcels *parcels)
{
    for (size_t i = 0; i < parcels->count; i++)
        record_free(&parcels->list[i].record);
    free(parcels->list);
    free(parcels->by_hash);
}

struct parcel *parcels_find(const struct parcels *parcels, const char *hash)
{
    size_t from = 0, to = parcels->different;
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        int order = strcmp(hash, parcels->by_hash[middle]->hash);
        if (order == 0)
            return parcels->by_hash[middle];
        if (order < 0)
            to = middle;
        else
            from = middle + 1;
    }
    return NULL;
}
