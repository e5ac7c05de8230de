/* SPDX-License-Identifier: MIT
 *
 * libc's own functions for threads; see plain_thread.h. */
#include "plain_thread.h"

#include "alloc/base/module.h"

#if STI_OVERRIDES
#define PLAIN(name) STI_LIBC_FUNCTION(name)
#else
#define PLAIN(name) static __typeof__(name) *const plain = name;
#endif

int sti_plain_create(pthread_t *id, const pthread_attr_t *attributes, void *(*function)(void *arg), void *arg)
{
    PLAIN(pthread_create)
    return plain(id, attributes, function, arg);
}

int sti_plain_join(pthread_t id, void **value)
{
    PLAIN(pthread_join)
    return plain(id, value);
}

int sti_plain_tryjoin(pthread_t id, void **value)
{
    PLAIN(pthread_tryjoin_np)
    return plain(id, value);
}

int sti_plain_detach(pthread_t id)
{
    PLAIN(pthread_detach)
    return plain(id);
}
