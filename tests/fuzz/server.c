/* SPDX-License-Identifier: MIT
 *
 * The server, whole, in a thread of this process: a connection sends the input and closes its side. The server answers
 * each request in HTTP or not at all, closes the connection long before its idle time, and answers the next good
 * one. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fuzz.h"

int server_main(int argc, char **argv); /* the server's main */

#define PATIENCE_MS 20000

static struct sockaddr_in address;

static void *serve(void *unused)
{
    static const char *const arguments[] = {
        "stint-sqld", "--listen",     "127.0.0.1:0", "--workers",       "2", "--timeout", "200ms", "--memory",
        "16M",        "--allocation", "64M",         "--global-memory", "0", NULL
    };
    (void)unused;
    exit(server_main((int)(sizeof arguments / sizeof *arguments) - 1, (char **)(uintptr_t)arguments));
    return NULL;
}

/* The descriptor of this process that listens; -1: none does yet. */
static int find_listener(void)
{
    for (int fd = 3; fd < 256; fd++) {
        int listens = 0;
        socklen_t size = sizeof listens;
        if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && listens)
            return fd;
    }
    return -1;
}

static int connect_to_server(void)
{
    int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    fuzz_require(client >= 0);
    fuzz_require(connect(client, (struct sockaddr *)&address, sizeof address) == 0);
    return client;
}

/* All that comes until the server closes, or until nothing has come for so long. */
static size_t read_all(int client, char *answer, size_t room, int patience_ms)
{
    char rest[4096];
    size_t size = 0;
    for (;;) {
        struct pollfd ready = { .fd = client, .events = POLLIN };
        bool has_come = poll(&ready, 1, patience_ms) == 1;
        fuzz_require(has_come || patience_ms < PATIENCE_MS);
        if (!has_come)
            return size;
        ssize_t count = size < room ? recv(client, answer + size, room - size, 0) : recv(client, rest, sizeof rest, 0);
        if (count <= 0)
            return size;
        size += size < room ? (size_t)count : 0;
    }
}

static void send_all(int client, const void *bytes, size_t size)
{
    for (size_t sent = 0; sent < size;) {
        ssize_t count = send(client, (const char *)bytes + sent, size - sent, MSG_NOSIGNAL);
        if (count <= 0)
            return; /* the server has refused it, and closed */
        sent += (size_t)count;
    }
}

static void ask_for_two(void)
{
    static const char good[] = "POST /query HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                               "Content-Length: 12\r\n\r\nSELECT 1 + 1";
    char answer[4096] = "";
    int client = connect_to_server();
    send_all(client, good, sizeof good - 1);
    size_t size = read_all(client, answer, sizeof answer - 1, PATIENCE_MS);
    close(client);
    fuzz_require(size > 12 && memcmp(answer, "HTTP/1.1 200", 12) == 0);
    fuzz_require(strstr(answer, "[2]") != NULL);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    pthread_t thread;
    socklen_t size = sizeof address;
    (void)argc;
    (void)argv;
    fuzz_require(pthread_create(&thread, NULL, serve, NULL) == 0);
    pthread_detach(thread);
    int listener = -1;
    for (int tries = 0; tries < 1000 && (listener = find_listener()) < 0; tries++)
        usleep(10000);
    fuzz_require(listener >= 0 && getsockname(listener, (struct sockaddr *)&address, &size) == 0);
    ask_for_two();
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static unsigned count;
    char answer[4096];
    int client = connect_to_server();
    send_all(client, data, size);
    shutdown(client, SHUT_WR);
    /* It looks for those who have ended their side once a second: seldom enough to be tried seldom. */
    size_t length = read_all(client, answer, sizeof answer, ++count % 16 == 0 ? PATIENCE_MS : 20);
    close(client);
    fuzz_require(length == 0 || (length > 12 && memcmp(answer, "HTTP/1.", 7) == 0));
    if (count % 16 == 0)
        ask_for_two();
    return 0;
}
