/* SPDX-License-Identifier: MIT
 *
 * Handles that libc opens for a task and no guard closes; blocks that libc makes for its caller to free; and functions
 * that call back, so that frames of libc lie on the stack. Open descriptors and growing memory would show each
 * mistake. */
#include "library.h"

#include <dirent.h>
#include <regex.h>
#include <stdio.h>
#include <unistd.h>

#define NUMBERS 200
#define LARGE ((size_t)256 << 10) /* bytes that are lost, because no owner frees the block */

/* --- Handles ------------------------------------------------------------------------------------------------------ */

static int read_file(uint64_t *sum)
{
    FILE *file = fopen("/proc/self/auxv", "r");
    if (file == NULL)
        return -1;
    char *line = NULL;
    size_t size = 0;
    int error = getdelim(&line, &size, '\0', file) < 0 ? -1 : chaos_pass(10);
    chaos_add_number(sum, (uint64_t)error);
    free(line);
    fclose(file);
    return error;
}

static int read_folder(uint64_t *sum)
{
    DIR *folder = opendir("/");
    if (folder == NULL)
        return -1;
    const struct dirent *entry;
    unsigned dots = 0;
    int error = 0;
    while (error == 0 && (entry = readdir(folder)) != NULL) {
        dots += strcmp(entry->d_name, ".") == 0;
        error = chaos_pass(1);
    }
    chaos_add_number(sum, dots);
    closedir(folder);
    return error;
}

static int write_in_memory(uint64_t *sum)
{
    char *written = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&written, &size);
    if (stream == NULL)
        return -1;
    int error = fprintf(stream, "%*s", 3000, "written") < 0 ? -1 : chaos_pass(10);
    error |= fclose(stream);
    if (error == 0)
        chaos_add_text(sum, written);
    free(written);
    return error;
}

static int match(uint64_t *sum)
{
    regex_t pattern;
    regmatch_t found = { 0 };
    if (regcomp(&pattern, "[a-z]+-[0-9]+", REG_EXTENDED) != 0)
        return -1;
    int error = regexec(&pattern, "some letters-1234", 1, &found, 0);
    chaos_add_number(sum, (uint64_t)found.rm_so);
    regfree(&pattern);
    return error;
}

/* --- Frames of libc ----------------------------------------------------------------------------------------------- */

/* Without memory too. */
static int by_number(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left;
    uint64_t b = *(const uint64_t *)right;
    chaos_pass(1);
    return (a > b) - (a < b);
}

static int sort(unsigned variant, uint64_t *sum)
{
    uint64_t numbers[NUMBERS];
    uint64_t state = variant;
    for (unsigned i = 0; i < NUMBERS; i++)
        numbers[i] = chaos_random(&state);
    uint64_t wanted = numbers[0];
    qsort(numbers, NUMBERS, sizeof *numbers, by_number);
    chaos_add(sum, numbers, sizeof numbers);
    const uint64_t *found = bsearch(&wanted, numbers, NUMBERS, sizeof *numbers, by_number);
    chaos_add_number(sum, found != NULL ? (uint64_t)(found - numbers) : 0);
    return 0;
}

static int is_dot(const struct dirent *entry)
{
    chaos_pass(1);
    return strcmp(entry->d_name, ".") == 0;
}

static int list_folder(uint64_t *sum)
{
    struct dirent **entries = NULL;
    int count = scandir("/", &entries, is_dot, alphasort);
    if (count < 0)
        return -1;
    chaos_add_number(sum, (uint64_t)count);
    for (int i = 0; i < count; i++)
        free(entries[i]);
    free(entries);
    return 0;
}

static int run(unsigned variant, uint64_t *sum)
{
    int (*const with_handle[])(uint64_t *) = { read_file, read_folder, write_in_memory, match, list_folder };
    char *folder = getcwd(NULL, LARGE);
    int error = folder != NULL ? with_handle[variant % 5](sum) : -1;
    if (error == 0)
        error = variant % 2 == 0 ? list_folder(sum) : sort(variant, sum);
    if (error == 0)
        chaos_add_text(sum, folder);
    free(folder);
    return error;
}

const struct chaos_library chaos_handles = {
    .name = "handles",
    .modes = CHAOS_ANY_MODE,
    .preemptible = true,
    .run = run,
};
