/* SPDX-License-Identifier: MIT
 *
 * libc, and locks of this program's own: a stream that all tasks share, sorting with a comparator that allocates, a
 * mutex around two counters that must agree, a file that is opened and closed. The file's descriptor is no memory: a
 * guard closes it. Between its opening and the guard interrupts have to wait. */
#include "library.h"

#include <pthread.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>

#define WORDS 64

static FILE *shared;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned long begun, ended;

static void ready(void)
{
    shared = fopen("/dev/null", "w");
}

/* Slowly, by copies in upper case; without memory by the plain names. */
static int by_copy(const void *left, const void *right)
{
    const char *const *a = left;
    const char *const *b = right;
    char *first = strdup(*a);
    char *second = strdup(*b);
    int order = first != NULL && second != NULL ? strcmp(first, second) : strcmp(*a, *b);
    free(second);
    free(first);
    return order;
}

/* The mutex is held over allocations: they are let through, or refused, but never end the task. */
static int count(void)
{
    pthread_mutex_lock(&lock);
    begun++;
    void *block = malloc(300);
    free(block);
    ended++;
    pthread_mutex_unlock(&lock);
    return block != NULL ? 0 : -1;
}

static int sort_words(unsigned variant, uint64_t *sum)
{
    char *words[WORDS] = { NULL };
    int error = 0;
    for (unsigned i = 0; i < WORDS && error == 0; i++)
        error = asprintf(&words[i], "word %u of %*u", (i * 37 + variant) % 101, 300, variant) < 0;
    if (error == 0) {
        qsort(words, WORDS, sizeof *words, by_copy);
        for (unsigned i = 0; i < WORDS; i++)
            chaos_add_text(sum, words[i]);
    }
    for (unsigned i = 0; i < WORDS; i++)
        free(words[i]);
    return error;
}

static int match_words(uint64_t *sum)
{
    regex_t pattern;
    if (regcomp(&pattern, "([a-z]+)-([0-9]+)", REG_EXTENDED) != 0)
        return -1;
    regmatch_t found[3];
    int error = regexec(&pattern, "some words, then letters-1234 and more", 3, found, 0);
    if (error == 0)
        chaos_add_number(sum, (uint64_t)found[2].rm_so);
    regfree(&pattern);
    return error;
}

static void close_file(void *argument)
{
    fclose(argument);
}

static int read_file(uint64_t *sum)
{
    stint_guard guard;
    stint_mask();
    FILE *file = fopen("/proc/self/auxv", "r");
    if (file != NULL)
        stint_guard_push(&guard, close_file, file);
    stint_unmask();
    if (file == NULL)
        return -1;
    char *line = NULL;
    size_t size = 0;
    int error = getdelim(&line, &size, '\0', file) < 0;
    chaos_add_number(sum, (uint64_t)error);
    free(line);
    stint_guard_pop(&guard, true);
    return error;
}

static int run(unsigned variant, uint64_t *sum)
{
    int error = sort_words(variant, sum);
    /* Wider than any buffer on the stack, so that printf has to allocate, with the stream locked. */
    fprintf(shared, "%*u %ls\n", 5000, variant, L"wide");
    error |= count();
    if (error == 0 && variant % 2 == 0)
        error = match_words(sum);
    if (error == 0 && variant % 3 == 0)
        error = read_file(sum);
    return error;
}

static bool idle(void)
{
    if (ftrylockfile(stdout) != 0)
        return false;
    funlockfile(stdout);
    if (ftrylockfile(shared) != 0)
        return false;
    funlockfile(shared);
    if (pthread_mutex_trylock(&lock) != 0)
        return false;
    bool agree = begun == ended;
    pthread_mutex_unlock(&lock);
    return agree;
}

const struct chaos_library chaos_libc = {
    .name = "libc",
    .modes = CHAOS_ANY_MODE,
    .preemptible = true,
    .ready = ready,
    .run = run,
    .idle = idle,
};
