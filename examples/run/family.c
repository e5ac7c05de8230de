/* SPDX-License-Identifier: MIT
 *
 * A process and all that it has started; see family.h. A process that is started while the list is read may be missed;
 * whoever asks again sees it. */
#include "family.h"

#include <dirent.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define NS_PER_SECOND UINT64_C(1000000000)

/* The calling process, and behind it all its descendants. Nothing is done to them before the list is whole: who loses
 * its parent is no longer found below it. */
struct list {
    pid_t *pids;
    size_t count;
    size_t room;
};

/* Without memory for one more the list ends early. */
static void list_add(struct list *list, pid_t pid)
{
    if (list->count == list->room) {
        size_t room = list->room != 0 ? 2 * list->room : 64;
        pid_t *larger = realloc(list->pids, room * sizeof *larger);
        if (larger == NULL)
            return;
        list->pids = larger;
        list->room = room;
    }
    list->pids[list->count++] = pid;
}

static void list_children_of_thread(struct list *list, pid_t pid, const char *thread)
{
    char path[64];
    int child;
    snprintf(path, sizeof path, "/proc/%d/task/%.20s/children", (int)pid, thread);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return;
    while (fscanf(file, "%d", &child) == 1)
        list_add(list, child);
    fclose(file);
}

/* Any of its threads may have started some. */
static void list_children(struct list *list, pid_t pid)
{
    char path[64];
    const struct dirent *thread;
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *threads = opendir(path);
    if (threads == NULL)
        return;
    while ((thread = readdir(threads)) != NULL) {
        if (thread->d_name[0] != '.')
            list_children_of_thread(list, pid, thread->d_name);
    }
    closedir(threads);
}

static struct list list_family(void)
{
    struct list list = { 0 };
    list_add(&list, getpid());
    for (size_t i = 0; i < list.count; i++)
        list_children(&list, list.pids[i]);
    return list;
}

/* The fields of /proc/PID/stat behind the name, which may have spaces and brackets in it. */
static bool read_stat(pid_t pid, uint64_t *own_ticks, uint64_t *children_ticks, unsigned *threads)
{
    char path[64];
    char line[1024];
    unsigned long long own_user, own_system, children_user, children_system;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return false;
    size_t length = fread(line, 1, sizeof line - 1, file);
    fclose(file);
    line[length] = '\0';
    const char *rest = line;
    for (const char *at = line; *at != '\0'; at++)
        rest = *at == ')' ? at + 1 : rest;
    if (sscanf(rest, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %llu %llu %*d %*d %u", &own_user,
               &own_system, &children_user, &children_system, threads) != 5)
        return false;
    *own_ticks = own_user + own_system;
    *children_ticks = children_user + children_system;
    return true;
}

/* What is its alone: pages of files are shared by all that map them. */
static uint64_t read_resident(pid_t pid)
{
    char path[64];
    unsigned long long resident = 0;
    unsigned long long shared = 0;
    snprintf(path, sizeof path, "/proc/%d/statm", (int)pid);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return 0;
    if (fscanf(file, "%*u %llu %llu", &resident, &shared) != 2 || shared > resident)
        resident = shared = 0;
    fclose(file);
    return (resident - shared) * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void measure_one(struct family *family, pid_t pid)
{
    uint64_t tick_ns = NS_PER_SECOND / (uint64_t)sysconf(_SC_CLK_TCK);
    uint64_t own;
    uint64_t children;
    unsigned threads;
    if (!read_stat(pid, &own, &children, &threads))
        return;
    family->threads += threads;
    family->cpu_ns += (own + children) * tick_ns;
    if (own * tick_ns > family->most_cpu_ns)
        family->most_cpu_ns = own * tick_ns;
    uint64_t resident = read_resident(pid);
    family->resident += resident;
    if (threads > 1 && resident > family->most_of_threads)
        family->most_of_threads = resident;
}

struct family family_measure(void)
{
    struct family family = { 0 };
    struct list list = list_family();
    for (size_t i = 1; i < list.count; i++)
        measure_one(&family, list.pids[i]);
    free(list.pids);
    return family;
}

void family_signal(int number)
{
    struct list list = list_family();
    for (size_t i = 1; i < list.count; i++)
        kill(list.pids[i], number);
    free(list.pids);
}
