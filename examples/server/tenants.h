/* SPDX-License-Identifier: MIT
 *
 * The tenants: who may ask, by which key, and how much all queries of one may take together. Each has an account, which
 * queries charge. */
#ifndef SERVER_TENANTS_H
#define SERVER_TENANTS_H

#include <stint/stint.h>

#define TENANTS_KEY_MAX 128
#define TENANTS_MESSAGE 256

struct tenants;
struct tenants_file; /* what a file says, not yet in force */

/* Read a tenants file. It blocks as files do; any thread. NULL: message says what is wrong, with the file and line. */
struct tenants_file *tenants_file_read(const char *path, char message[TENANTS_MESSAGE]);
void tenants_file_free(struct tenants_file *file);

/* One tenant without key, called "default": each address that asks is a part of it, with an account of its own, of
 * which so many queries may wait at once. The rest of these are for the loop only. NULL: out of memory. */
struct tenants *tenants_create(size_t waiting);
void tenants_free(struct tenants *tenants);

/* Put a file in force: those that are known get their new keys and limits, others are added, and those that it does not
 * name are dropped, whose queries go on. 0, or ENOMEM: nothing was changed. */
int tenants_apply(struct tenants *tenants, const struct tenants_file *file);

#define TENANTS_ADDRESS 16

/* The account of an address that asks without a key, which the caller releases; NULL: keys are needed, or there is no
 * memory. That of an address that has gone is kept for when it comes back, until a thousand others have come: who
 * connects anew for each query does not begin anew. */
stint_account *tenants_of_address(struct tenants *tenants, const unsigned char address[TENANTS_ADDRESS]);

/* The account of the tenant with this key (NULL: none was given), which is the table's; where no key is needed, that of
 * the address (NULL: there was no memory for one); NULL: there is none. Takes the same time for each key of the same
 * length, whatever it begins with. */
stint_account *tenants_find(const struct tenants *tenants, const char *key, stint_account *address);

/* Whether there is but the one tenant of a server without a file. */
bool tenants_need_no_key(const struct tenants *tenants);

/* Whether two keys are the same, likewise. */
bool tenants_keys_equal(const char *key, const char *other);

/* Its limits, to be told to who has passed them, also those of an address; NULL: it has been dropped meanwhile. */
const stint_account_limits *tenants_limits(const struct tenants *tenants, const stint_account *account);

#endif
