/* SPDX-License-Identifier: MIT
 *
 * State that outlives the task that filled it: libc's time zone, its error texts for each thread, its buffers for
 * users; and a table of this program in a static variable. A lock guards each that threads share.
 *
 * A block that one task made, and another may free while the first still runs, would have to be the process's
 * (pool.c); so each thread has a table of its own.
 *
 * libc remembers each zone by its name, and the names differ, but all zones have the same time. The names differ in a
 * letter of the environment's string, which is changed in place, so that other readers of the environment always find
 * a whole string. */
#include "library.h"

#include <pthread.h>
#include <pwd.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

#define NAMES 8
#define TABLES 128
#define LENGTH 200
#define ZONES 26

/* --- The time zone ------------------------------------------------------------------------------------------------ */

static pthread_mutex_t zone_lock = PTHREAD_MUTEX_INITIALIZER;
static char zone[] = "TZ=ZAA-5:30";
static unsigned zone_number;

static void ready(void)
{
    putenv(zone);
    tzset();
}

static void change_zone(void)
{
    zone_number = (zone_number + 1) % ZONES;
    *(volatile char *)&zone[4] = (char)('A' + zone_number);
}

static void add_time(uint64_t *sum)
{
    time_t when = 1700000000;
    char text[64] = "";
    const struct tm *local = localtime(&when);
    if (local != NULL)
        strftime(text, sizeof text, "%F %T %z", local);
    chaos_add_text(sum, text);
}

static void ask_for_time(uint64_t *sum)
{
    pthread_mutex_lock(&zone_lock);
    add_time(sum); /* as the last task has left it */
    change_zone();
    add_time(sum);
    pthread_mutex_unlock(&zone_lock);
}

/* --- Users and errors --------------------------------------------------------------------------------------------- */

static int ask_for_user(uint64_t *sum)
{
    pthread_mutex_lock(&zone_lock);
    const struct passwd *user = getpwnam("root");
    chaos_add_text(sum, user != NULL ? user->pw_dir : "");
    pthread_mutex_unlock(&zone_lock);
    return user != NULL ? 0 : -1;
}

/* libc makes such a text, and keeps it until the thread asks for the next. */
static void ask_for_errors(unsigned variant, uint64_t *sum)
{
    chaos_add_text(sum, strerror(12345 + (int)variant));
    chaos_add_text(sum, strsignal(1000 + (int)variant));
}

/* --- Tables of names in a static variable ------------------------------------------------------------------------- */

/* A thread's strings: LENGTH times the same letter each, or NULL. */
static char *names[TABLES][NAMES];
static atomic_uint tables;          /* that have been taken since all threads were new */
static __thread unsigned own_table; /* and 1; 0: none yet */

static char **table_of_thread(void)
{
    if (own_table == 0)
        own_table = atomic_fetch_add_explicit(&tables, 1, memory_order_relaxed) % TABLES + 1;
    return names[own_table - 1];
}

static bool is_whole(const char *name)
{
    size_t i = 0;
    while (i < LENGTH && name[i] == name[0])
        i++;
    return i == LENGTH && name[0] >= 'a' && name[0] <= 'z';
}

/* In one step, which a refusal may end early. */
static int renew_name(unsigned number, uint64_t *sum)
{
    char **name = &table_of_thread()[number];
    stint_mask();
    chaos_add_number(sum, *name == NULL || is_whole(*name));
    free(*name);
    *name = malloc(LENGTH);
    int error = *name != NULL ? 0 : -1;
    if (error == 0)
        memset(*name, (int)('a' + number), LENGTH);
    stint_unmask();
    return error;
}

/* On after a refusal, too: a log would be written with the time. */
static int run(unsigned variant, uint64_t *sum)
{
    int error = 0;
    for (unsigned i = 0; i < 4 && error == 0; i++) {
        error = renew_name((variant + i) % NAMES, sum);
        if (error == 0)
            error = chaos_pass(20);
    }
    ask_for_time(sum);
    ask_for_errors(variant, sum);
    if (error == 0 && variant % 3 == 0)
        error = ask_for_user(sum);
    return error == 0 ? chaos_pass(20) : error;
}

/* The next threads are new ones. */
static bool idle(void)
{
    atomic_store_explicit(&tables, 0, memory_order_relaxed);
    if (pthread_mutex_trylock(&zone_lock) != 0)
        return false;
    pthread_mutex_unlock(&zone_lock);
    return true;
}

const struct chaos_library chaos_caches = {
    .name = "caches",
    .modes = CHAOS_ANY_MODE,
    .preemptible = true,
    .ready = ready,
    .run = run,
    .idle = idle,
};
