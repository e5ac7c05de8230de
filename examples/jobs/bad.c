/* SPDX-License-Identifier: MIT
 *
 * A handler that is guilty of all that code can do to its process: the first line of the document names the crime. It
 * is there to show that a wall contains it, and runs behind one only. A crime that is refused, as by the sandbox, ends
 * as an Error that says so; one that nobody hinders would end Ok. */
#include "library.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MANY 4096

static int was_stopped(parse_document *document, unsigned count, const char *of_what, int error)
{
    if (error)
        parse_explain(document, "%u %s, then: %s", count, of_what, strerror(error));
    document->items = count;
    return error;
}

static int write_to_null(parse_document *document)
{
    volatile int *volatile nowhere = NULL;
    (void)document;
    *nowhere = 1;
    return 0;
}

static int give_up(parse_document *document)
{
    (void)document;
    abort();
}

static int end_process(parse_document *document)
{
    (void)document;
    exit(3);
}

static int kill_itself(parse_document *document)
{
    (void)document;
    return kill(getpid(), SIGKILL);
}

/* With all signals blocked and a lock held, at no sample point: nothing in the process stops it. */
static int loop_for_ever(parse_document *document)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    sigset_t all;
    (void)document;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    pthread_mutex_lock(&lock);
    for (;;)
        __asm__ volatile("");
    return 0;
}

static int sleep_for_ever(parse_document *document)
{
    (void)document;
    for (;;)
        pause();
    return 0;
}

static int leak_descriptors(parse_document *document)
{
    unsigned count = 0;
    while (count < MANY && dup(STDIN_FILENO) >= 0)
        count++;
    return was_stopped(document, count, "descriptors", count < MANY ? errno : 0);
}

static void *wait_for_ever(void *unused)
{
    (void)unused;
    for (;;)
        pause();
    return NULL;
}

static int start_threads(parse_document *document)
{
    unsigned count = 0;
    int error = 0;
    pthread_t thread;
    while (count < MANY && (error = pthread_create(&thread, NULL, wait_for_ever, NULL)) == 0)
        count++;
    return was_stopped(document, count, "threads", error);
}

static int start_processes(parse_document *document)
{
    unsigned count = 0;
    pid_t child = 0;
    while (count < MANY && (child = fork()) > 0)
        count++;
    if (child == 0 && count < MANY)
        wait_for_ever(NULL);
    return was_stopped(document, count, "processes", child < 0 ? errno : 0);
}

/* Its return address goes, too, and its caller's; a loop could lose its own counter first. */
__attribute__((noinline)) static int overrun_buffer(parse_document *document)
{
    char buffer[16];
    volatile size_t size = MANY;
    (void)document;
    memset(buffer, 'x', size);
    return buffer[0] == 0;
}

static int read_anothers_file(parse_document *document)
{
    int file = open("/etc/passwd", O_RDONLY | O_CLOEXEC);
    return was_stopped(document, file >= 0, "files", file < 0 ? errno : 0);
}

static int make_socket(parse_document *document)
{
    int made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return was_stopped(document, made >= 0, "sockets", made < 0 ? errno : 0);
}

static const struct crime {
    const char *name;
    int (*commit)(parse_document *document);
} crimes[] = {
    { "null", write_to_null },      { "abort", give_up },
    { "exit", end_process },        { "kill", kill_itself },
    { "loop", loop_for_ever },      { "sleep", sleep_for_ever },
    { "threads", start_threads },   { "descriptors", leak_descriptors },
    { "fork", start_processes },    { "overrun", overrun_buffer },
    { "open", read_anothers_file }, { "socket", make_socket },
};

int bad_parse(parse_document *document, const char *text, size_t size)
{
    size_t length = strcspn(text, "\n");
    (void)size;
    for (size_t i = 0; i < sizeof crimes / sizeof *crimes; i++) {
        if (strlen(crimes[i].name) == length && memcmp(crimes[i].name, text, length) == 0)
            return crimes[i].commit(document);
    }
    parse_explain(document, "its first line names no crime that is known");
    return EBADMSG;
}
