/* SPDX-License-Identifier: MIT
 *
 * stint-sqld: SQL over HTTP, each query as a task with a budget of its own. This file puts the parts together. */
#include "arguments.h"
#include "chore.h"
#include "client.h"
#include "database.h"
#include "http.h"
#include "loop.h"
#include "options.h"
#include "page.h"
#include "request.h"
#include "sample.h"
#include "stopped.h"
#include "threads.h"
#include "turns.h"
#include "walled.h"

#include <errno.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

enum { EXIT_ENDED = 0, EXIT_FAILED = 1, EXIT_UNUSABLE = 2 };

#define BACKLOG 512
#define CHORE_WORKERS 2
#define SUBSTITUTES 1024 /* as many as there can be: a query for each connection may wait for its reader */
#define CONNECTION_MEMORY ((size_t)32 << 10)
/* Its own, and those of a query that waits for its reader: a database, its WAL, the index. */
#define CONNECTION_DESCRIPTORS 4
#define OTHER_DESCRIPTORS 64

/* What has been opened, in the order of its opening; closed in the other. */
struct program {
    struct options options;
    struct server server;
    char *sample;    /* its path; NULL: there is none */
    sqlite3 *keeper; /* keeps what SQLite has for a file that is open from being made anew for each query */
    closed_sqlite_refusal keeper_refusal;
    int listening;
    char key[TENANTS_KEY_MAX + 2];
};

static bool complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

static bool complain(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("stint-sqld: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    return false;
}

/* What the user has to put right */

static bool open_keeper(struct program *program)
{
    const char *path = program->server.database;
    int result = database_open(path, &program->keeper_refusal, &program->keeper);
    if (result == SQLITE_OK)
        result = sqlite3_exec(program->keeper, "SELECT count(*) FROM sqlite_schema", NULL, NULL, NULL);
    return result == SQLITE_OK || complain("%s: %s", path, sqlite3_errmsg(program->keeper));
}

static void close_keeper(struct program *program)
{
    sqlite3_close(program->keeper);
    program->keeper = NULL;
}

/* Before any thread, and without the keeper: a child that knew of the keeper's locks, and did not have them, would read
 * what is being written. But the keeper has been open, so that all files of the database are there. */
static bool open_wall(struct program *program)
{
    char message[256] = "";
    close_keeper(program);
    int error = walled_open(&program->server, message, sizeof message);
    return error == 0 || complain("--wall: %s", message[0] ? message : strerror(error));
}

static bool open_database(struct program *program)
{
    char message[256];
    int result = database_ready();
    if (result != SQLITE_OK)
        return complain("SQLite: %s", sqlite3_errstr(result));
    if (!program->options.database && !(program->sample = sample_create(message, sizeof message)))
        return complain("%s", message);
    program->server.database = program->sample ? program->sample : program->options.database;
    if (!open_keeper(program))
        return false;
    return !program->options.wall || (open_wall(program) && open_keeper(program));
}

static bool read_tenants(struct program *program)
{
    struct server *server = &program->server;
    char message[TENANTS_MESSAGE];
    server->tenants = tenants_create((program->options.queue + 1) / 2);
    if (!server->tenants)
        return complain("out of memory");
    if (!program->options.tenants)
        return true;
    struct tenants_file *file = tenants_file_read(program->options.tenants, message);
    if (!file)
        return complain("%s", message);
    int error = tenants_apply(server->tenants, file);
    tenants_file_free(file);
    return error == 0 || complain("out of memory");
}

static bool read_page_key(struct program *program)
{
    const char *path = program->options.page_key;
    if (!path)
        return true;
    FILE *file = fopen(path, "re");
    if (!file)
        return complain("%s: %s", path, strerror(errno));
    bool read = fgets(program->key, sizeof program->key, file) != NULL;
    fclose(file);
    program->key[strcspn(program->key, "\r\n")] = 0;
    if (!read || strlen(program->key) < 8 || strlen(program->key) > TENANTS_KEY_MAX)
        return complain("%s: the first line must be a key of 8 to %d characters", path, TENANTS_KEY_MAX);
    program->server.page_key = program->key;
    return true;
}

static bool open_socket(struct program *program)
{
    program->listening = address_listen(&program->options.address, BACKLOG);
    return program->listening >= 0 || complain("--listen %s: %s", program->options.listen, strerror(errno));
}

static bool open_what_was_named(struct program *program)
{
    return read_tenants(program) && read_page_key(program) && open_socket(program) && open_database(program);
}

/* What the machine has to give */

/* Where there are too few, slow readers would take them all, and a good query could not open the database. */
static void make_room_for_descriptors(struct program *program)
{
    struct options *options = &program->options;
    struct rlimit limit;
    rlim_t wanted = OTHER_DESCRIPTORS + (rlim_t)options->connections * CONNECTION_DESCRIPTORS;
    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= wanted)
        return;
    limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
    if (setrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur == wanted)
        return;
    rlim_t left = limit.rlim_cur > OTHER_DESCRIPTORS ? limit.rlim_cur - OTHER_DESCRIPTORS : 0;
    options->connections = left < CONNECTION_DESCRIPTORS ? 1 : (unsigned)(left / CONNECTION_DESCRIPTORS);
    complain("%u connections at once: the process may have only %llu descriptors", options->connections,
             (unsigned long long)limit.rlim_cur);
}

/* Half of the workers are for the queries that have just begun, where there are more than one: the others take
 * turns. */
static bool start_queries(struct program *program)
{
    struct server *server = &program->server;
    const struct options *options = &program->options;
    stint_pool_options pool = STINT_POOL_OPTIONS_INIT;
    pool.name = "queries";
    pool.workers = options->workers ? options->workers : 2 * arguments_processors();
    pool.queue_capacity = options->queue;
    pool.substitutes = SUBSTITUTES;
    pool.worker_begins = query_give_way;
    /* A query has its connection to itself, and what it shares with others is masked (vfs.c): so SQLite may be left. */
    int error = stint_module_allow("libsqlite3");
    if (!error)
        error = stint_pool_create(&pool, &server->pool);
    if (error)
        return complain("cannot start the pool: %s", strerror(error));
    server->workers = stint_pool_workers(server->pool);
    unsigned half = server->workers / 2, most = arguments_processors();
    turns_open(half == 0 ? 1 : half < most ? half : most);
    if (!options->unbounded)
        return true;
    /* It was asked for how many workers it would have. */
    stint_pool_destroy(server->pool);
    server->pool = NULL;
    server->threads = threads_create(server->workers, options->queue);
    return server->threads || complain("cannot start the threads");
}

static bool start_chores(struct program *program)
{
    struct server *server = &program->server;
    stint_pool_options chores = STINT_POOL_OPTIONS_INIT;
    chores.name = "chores";
    chores.workers = CHORE_WORKERS;
    int error = stint_completions_create(&server->completions);
    if (!error)
        error = stint_pool_create(&chores, &server->chores);
    if (!error)
        error = mailbox_open(&server->mailbox);
    if (!error && !(server->stopped = stopped_create()))
        error = ENOMEM;
    if (!error)
        error = stint_global_set_memory_limit(program->options.global_memory);
    if (error == ENOTSUP && program->options.global_memory == STINT_MEMORY_LIMIT_OF_CGROUP)
        error = 0; /* there is no group that allows less than all */
    return error == 0 || complain("cannot start: %s", strerror(error));
}

static bool start_http(struct program *program)
{
    struct server *server = &program->server;
    const struct options *options = &program->options;
    unsigned flags =
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | (options->address.socket.ss_family == AF_INET6 ? MHD_USE_IPv6 : 0);
    server->poll = epoll_create1(EPOLL_CLOEXEC);
    if (server->poll < 0 || page_create(server) != 0)
        return complain("cannot start: %s", strerror(errno));
    server->daemon =
        MHD_start_daemon(flags, 0, NULL, NULL, http_handle, server, MHD_OPTION_LISTEN_SOCKET, program->listening,
                         MHD_OPTION_CONNECTION_LIMIT, options->connections, MHD_OPTION_CONNECTION_TIMEOUT,
                         (unsigned)(options->idle_ns / UINT64_C(1000000000)), MHD_OPTION_CONNECTION_MEMORY_LIMIT,
                         CONNECTION_MEMORY, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_NOTIFY_COMPLETED,
                         http_completed, server, MHD_OPTION_NOTIFY_CONNECTION, client_notify, server, MHD_OPTION_END);
    return server->daemon || complain("cannot start libmicrohttpd");
}

/* Where somebody waits for the line, as a script does, it names the port that was taken. */
static void announce(const struct program *program)
{
    struct sockaddr_storage address;
    socklen_t length = sizeof address;
    char host[64], port[8];
    getsockname(program->listening, (struct sockaddr *)&address, &length);
    getnameinfo((struct sockaddr *)&address, length, host, sizeof host, port, sizeof port,
                NI_NUMERICHOST | NI_NUMERICSERV);
    bool six = address.ss_family == AF_INET6;
    printf("stint-sqld: http://%s%s%s:%s/ answers from %s\n", six ? "[" : "", host, six ? "]" : "", port,
           program->options.database ? program->options.database : "a sample database");
    fflush(stdout);
}

static void close_all(struct program *program)
{
    struct server *server = &program->server;
    if (server->daemon)
        MHD_stop_daemon(server->daemon);
    page_free(server->page);
    if (server->threads)
        threads_destroy(server->threads);
    stint_pool_destroy(server->pool);
    stint_wall_destroy(server->wall);
    stint_pool_destroy(server->chores);
    if (server->stopped)
        mailbox_close(&server->mailbox);
    stint_completions_destroy(server->completions);
    stopped_free(server->stopped);
    tenants_free(server->tenants);
    close_keeper(program);
    sample_remove(program->sample);
}

static int serve(struct program *program)
{
    struct server *server = &program->server;
    /* Profiles are worth having where the library can write them; without, their paths say so. */
    stint_profile_start(NULL);
    make_room_for_descriptors(program);
    if (!start_queries(program) || !start_chores(program) || !start_http(program))
        return EXIT_FAILED;
    announce(program);
    int error = loop_run(server);
    if (error != ETIMEDOUT)
        return error ? complain("%s", strerror(error)), EXIT_FAILED : EXIT_ENDED;
    /* What still runs uses all of it. */
    complain("%zu queries have not ended", server->unresolved_count);
    fflush(NULL);
    if (program->sample)
        unlink(program->sample);
    _exit(EXIT_FAILED);
}

int main(int argc, char **argv)
{
    struct program program = { .listening = -1 };
    arguments_next next = options_read(&program.options, argc, argv);
    if (next != ARGUMENTS_RUN)
        return next == ARGUMENTS_DONE ? EXIT_ENDED : EXIT_UNUSABLE;
    program.server.options = &program.options;
    /* Of huge pages the system keeps the whole where a query has left a part in use, and it makes new ones of what is
     * mostly free while the server idles. */
    prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
    loop_block_signals();
    int status = open_what_was_named(&program) ? serve(&program) : EXIT_UNUSABLE;
    requests_bury(&program.server);
    close_all(&program);
    return status;
}
