/* SPDX-License-Identifier: MIT
 *
 * The two usual ways to serve queries, for bench/server/run to measure beside stint-sqld: stint-server-peers HOW FILE.
 *
 *   process   each query in a process of its own, with rlimits, forked by a small process that does nothing else, so
 *             that a fork copies little. What a child writes comes through a pipe; a bomb is killed by the kernel.
 *   thread    each query on a thread, with no limit: what many servers do. One thread a connection, which keeps its
 *             connection to the database too: kinder than one a query.
 *
 * Listens on a free port of 127.0.0.1, which it prints. Both have a thread a connection for HTTP. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <microhttpd.h>
#include <pthread.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

#define MAX_STATEMENT 65536

static const char *database;
static size_t memory_limit = (size_t)64 << 20;
static unsigned timeout_ms = 5000;
static int fork_server = -1; /* where queries go; -1: each connection's thread runs its own */
static pthread_key_t connection_key;

struct answer {
    char *data;
    size_t length, capacity;
    unsigned status;
};

static bool add(struct answer *answer, const void *data, size_t length)
{
    if (answer->capacity - answer->length < length) {
        size_t capacity = 2 * answer->capacity + length + 1024;
        char *larger = realloc(answer->data, capacity);
        if (!larger)
            return false;
        answer->data = larger;
        answer->capacity = capacity;
    }
    memcpy(answer->data + answer->length, data, length);
    answer->length += length;
    return true;
}

static bool add_text(struct answer *answer, const char *text)
{
    return add(answer, text, strlen(text));
}

static bool add_string(struct answer *answer, const unsigned char *text, int length)
{
    bool added = add_text(answer, "\"");
    for (int i = 0; i < length && added; i++) {
        char escaped[8];
        if (text[i] >= 0x20 && text[i] != '"' && text[i] != '\\') {
            added = add(answer, text + i, 1);
            continue;
        }
        snprintf(escaped, sizeof escaped, "\\u%04x", text[i]);
        added = add_text(answer, escaped);
    }
    return added && add_text(answer, "\"");
}

static bool add_value(struct answer *answer, sqlite3_stmt *statement, int column)
{
    switch (sqlite3_column_type(statement, column)) {
    case SQLITE_NULL:
        return add_text(answer, "null");
    case SQLITE_INTEGER:
    case SQLITE_FLOAT:
        return add_text(answer, (const char *)sqlite3_column_text(statement, column));
    default:
        return add_string(answer, sqlite3_column_text(statement, column), sqlite3_column_bytes(statement, column));
    }
}

static bool add_row(struct answer *answer, sqlite3_stmt *statement)
{
    bool added = add_text(answer, answer->length > 1 ? ",\n[" : "\n[");
    for (int i = 0; i < sqlite3_column_count(statement) && added; i++)
        added = (i == 0 || add_text(answer, ",")) && add_value(answer, statement, i);
    return added && add_text(answer, "]");
}

static void failed(struct answer *answer, unsigned status, const char *message)
{
    answer->length = 0;
    answer->status = status;
    (void)add_text(answer, message);
}

static void run(sqlite3 *db, const char *sql, struct answer *answer)
{
    sqlite3_stmt *statement = NULL;
    if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) != SQLITE_OK) {
        failed(answer, 400, sqlite3_errmsg(db));
        return;
    }
    answer->status = 200;
    int step = SQLITE_NOMEM;
    if (add_text(answer, "[")) {
        while ((step = sqlite3_step(statement)) == SQLITE_ROW) {
            if (!add_row(answer, statement)) {
                step = SQLITE_NOMEM;
                break;
            }
        }
    }
    if (step != SQLITE_DONE)
        failed(answer, step == SQLITE_NOMEM ? 422 : 400, sqlite3_errmsg(db));
    else
        (void)add_text(answer, "\n]\n");
    sqlite3_finalize(statement);
}

static sqlite3 *open_database(void)
{
    sqlite3 *db = NULL;
    if (sqlite3_open_v2(database, &db, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, NULL) == SQLITE_OK)
        return db;
    sqlite3_close(db);
    return NULL;
}

static bool write_all(int fd, const char *data, size_t length)
{
    while (length > 0) {
        ssize_t written = write(fd, data, length);
        if (written < 0)
            return false;
        data += written;
        length -= (size_t)written;
    }
    return true;
}

/* In a child of its own. The status comes first; without one, the child was killed. */
static void serve_in_child(const char *sql, int out)
{
    struct rlimit memory = { memory_limit, memory_limit };
    struct itimerval time = { .it_value = { timeout_ms / 1000, (suseconds_t)(timeout_ms % 1000) * 1000 } };
    signal(SIGALRM, SIG_DFL);
    setrlimit(RLIMIT_DATA, &memory);
    setitimer(ITIMER_REAL, &time, NULL);
    struct answer answer = { .status = 500 };
    sqlite3 *db = open_database();
    if (db)
        run(db, sql, &answer);
    char status[4];
    snprintf(status, sizeof status, "%03u", answer.status % 1000);
    _exit(write_all(out, status, 3) && write_all(out, answer.data, answer.length) ? 0 : 1);
}

/* Takes statements, each with the descriptor for its answer, and forks for each. */
static void fork_for_ever(int queries)
{
    static char sql[MAX_STATEMENT + 1];
    signal(SIGCHLD, SIG_IGN);
    for (;;) {
        union {
            struct cmsghdr header;
            char room[CMSG_SPACE(sizeof(int))];
        } control;
        struct iovec part = { sql, MAX_STATEMENT };
        struct msghdr message = {
            .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control
        };
        ssize_t length = recvmsg(queries, &message, 0);
        if (length <= 0)
            _exit(0);
        struct cmsghdr *first = CMSG_FIRSTHDR(&message);
        if (!first)
            continue;
        int out;
        memcpy(&out, CMSG_DATA(first), sizeof out);
        sql[length] = 0;
        if (fork() == 0)
            serve_in_child(sql, out);
        close(out);
    }
}

static bool send_query(char *sql, int out)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } control = { .header = { .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS } };
    memcpy(CMSG_DATA(&control.header), &out, sizeof out);
    struct iovec part = { sql, strlen(sql) };
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control
    };
    return sendmsg(fork_server, &message, MSG_NOSIGNAL) >= 0;
}

static void run_in_process(char *sql, struct answer *answer)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
        failed(answer, 503, "no pipe\n");
        return;
    }
    bool sent = send_query(sql, ends[1]);
    close(ends[1]);
    char buffer[16384];
    ssize_t length;
    while (sent && (length = read(ends[0], buffer, sizeof buffer)) > 0)
        (void)add(answer, buffer, (size_t)length);
    close(ends[0]);
    if (answer->length < 3) {
        failed(answer, 504, "killed\n");
        return;
    }
    answer->status = (unsigned)strtoul((char[]){ answer->data[0], answer->data[1], answer->data[2], 0 }, NULL, 10);
    answer->length -= 3;
    memmove(answer->data, answer->data + 3, answer->length);
}

static void close_database(void *db)
{
    sqlite3_close(db);
}

static void run_in_thread(const char *sql, struct answer *answer)
{
    sqlite3 *db = pthread_getspecific(connection_key);
    if (!db) {
        db = open_database();
        pthread_setspecific(connection_key, db);
    }
    if (db)
        run(db, sql, answer);
    else
        failed(answer, 500, "no database\n");
}

static enum MHD_Result handle(void *context, struct MHD_Connection *connection, const char *address, const char *method,
                              const char *version, const char *data, size_t *size, void **request)
{
    (void)context;
    (void)address;
    (void)version;
    struct answer *sql = *request;
    if (strcmp(method, "POST") != 0)
        return MHD_NO;
    if (!sql) {
        *request = calloc(1, sizeof *sql);
        return *request ? MHD_YES : MHD_NO;
    }
    if (*size > 0) {
        bool added = sql->length + *size <= MAX_STATEMENT && add(sql, data, *size);
        *size = 0;
        return added ? MHD_YES : MHD_NO;
    }
    struct answer answer = { .status = 500 };
    if (add(sql, "", 1)) {
        if (fork_server >= 0)
            run_in_process(sql->data, &answer);
        else
            run_in_thread(sql->data, &answer);
    }
    struct MHD_Response *response = MHD_create_response_from_buffer(answer.length, answer.data, MHD_RESPMEM_MUST_FREE);
    if (!response)
        return MHD_NO;
    enum MHD_Result queued = MHD_queue_response(connection, answer.status, response);
    MHD_destroy_response(response);
    return queued;
}

static void completed(void *context, struct MHD_Connection *connection, void **request,
                      enum MHD_RequestTerminationCode code)
{
    (void)context;
    (void)connection;
    (void)code;
    struct answer *sql = *request;
    if (sql)
        free(sql->data);
    free(sql);
}

static bool start_fork_server(void)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return false;
    pid_t child = fork();
    if (child < 0)
        return false;
    if (child == 0) {
        close(ends[1]);
        fork_for_ever(ends[0]);
    }
    close(ends[0]);
    fork_server = ends[1];
    return true;
}

int main(int argc, char **argv)
{
    if (argc < 3 || (strcmp(argv[1], "process") != 0 && strcmp(argv[1], "thread") != 0)) {
        fputs("usage: stint-server-peers process|thread DATABASE.db [MEMORY-BYTES TIMEOUT-MS]\n", stderr);
        return 2;
    }
    database = argv[2];
    if (argc > 4) {
        memory_limit = strtoul(argv[3], NULL, 10);
        timeout_ms = (unsigned)strtoul(argv[4], NULL, 10);
    }
    signal(SIGPIPE, SIG_IGN);
    if (strcmp(argv[1], "process") == 0 && !start_fork_server()) {
        perror("stint-server-peers");
        return 1;
    }
    pthread_key_create(&connection_key, close_database);
    struct sockaddr_in here = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
    struct MHD_Daemon *daemon = MHD_start_daemon(
        MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION | MHD_USE_POLL, 0, NULL, NULL, handle, NULL,
        MHD_OPTION_SOCK_ADDR, (struct sockaddr *)&here, MHD_OPTION_NOTIFY_COMPLETED, completed, NULL, MHD_OPTION_END);
    const union MHD_DaemonInfo *bound = daemon ? MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_BIND_PORT) : NULL;
    if (!bound) {
        fputs("stint-server-peers: cannot listen\n", stderr);
        return 1;
    }
    printf("listening on 127.0.0.1:%u\n", (unsigned)bound->port);
    fflush(stdout);
    pause();
    return 0;
}
