/* SPDX-License-Identifier: MIT
 *
 * A library that keeps its objects; see library.h. */
#include "library.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static char *in_static;
static __thread char *in_thread;
static __thread char large[1 << 16];
static pthread_key_t whole_key;
static pthread_key_t early_key;
static int busy;

__attribute__((constructor)) static void make_keys(void)
{
    if (pthread_key_create(&whole_key, NULL) != 0 || pthread_key_create(&early_key, NULL) != 0)
        abort();
}

static char *make(void)
{
    char *block = malloc(MASKING_SIZE);
    return block != NULL ? strcpy(block, MASKING_CONTENT) : NULL;
}

const char *masking_static(void)
{
    if (in_static == NULL)
        in_static = make();
    return in_static;
}

const char *masking_thread_local(void)
{
    if (in_thread == NULL)
        in_thread = make();
    return in_thread;
}

const char *masking_specific(void)
{
    if (pthread_getspecific(whole_key) == NULL)
        pthread_setspecific(whole_key, make());
    return pthread_getspecific(whole_key);
}

const char *masking_set_early(void)
{
    char **state = pthread_getspecific(early_key);
    if (state == NULL) {
        state = calloc(1, sizeof *state);
        pthread_setspecific(early_key, state);
        masking_hook();
        *state = make();
    }
    return *state;
}

void masking_work(void)
{
    busy++;
    masking_hook();
    busy--;
}

int masking_is_busy(void)
{
    return busy != 0;
}

char *masking_large_thread_local(void)
{
    return large;
}
