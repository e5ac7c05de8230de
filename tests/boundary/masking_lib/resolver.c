/* SPDX-License-Identifier: MIT
 *
 * A name-service module that knows no host and calls the test's hook, under gethostbyname and getaddrinfo. For the
 * latter it asks for a large buffer first, and writes all over it. */
#include <errno.h>
#include <netdb.h>
#include <nss.h>
#include <stdint.h>
#include <string.h>

#include "library.h"

#define LARGE ((size_t)1 << 20)

enum nss_status _nss_masking_gethostbyname_r(const char *name, struct hostent *result, char *buffer, size_t size,
                                             int *error, int *host_error);
enum nss_status _nss_masking_gethostbyname4_r(const char *name, struct gaih_addrtuple **result, char *buffer,
                                              size_t size, int *error, int *host_error, int32_t *life);

static enum nss_status find_nothing(int *error, int *host_error)
{
    masking_hook();
    *error = ENOENT;
    *host_error = HOST_NOT_FOUND;
    return NSS_STATUS_NOTFOUND;
}

enum nss_status _nss_masking_gethostbyname_r(const char *name, struct hostent *result, char *buffer, size_t size,
                                             int *error, int *host_error)
{
    (void)name;
    (void)result;
    (void)buffer;
    (void)size;
    return find_nothing(error, host_error);
}

enum nss_status _nss_masking_gethostbyname4_r(const char *name, struct gaih_addrtuple **result, char *buffer,
                                              size_t size, int *error, int *host_error, int32_t *life)
{
    (void)name;
    (void)result;
    (void)life;
    if (size < LARGE) {
        *error = ERANGE;
        *host_error = NETDB_INTERNAL;
        return NSS_STATUS_TRYAGAIN;
    }
    memset(buffer, 1, size);
    return find_nothing(error, host_error);
}
