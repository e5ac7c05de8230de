/* SPDX-License-Identifier: MIT
 *
 * The recipe for libcurl, as docs/recipes.md gives it: STINT_FAIL, so that the transfer ends by itself and closes what
 * it has opened, and a progress callback that looks whether it is to end. Against a server in this process. Not against
 * a file: when memory fails before the file is open, this version closes descriptor 0. */
#include "../support.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <dirent.h>

#include <netinet/in.h>
#include <stdatomic.h>
#include <sys/socket.h>

#define RUNS 500

static size_t open_descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    assert_non_null(folder);
    size_t count = 0;
    while (readdir(folder) != NULL)
        count++;
    closedir(folder);
    return count;
}

static int look(void *unused, curl_off_t total, curl_off_t now, curl_off_t upload, curl_off_t uploaded)
{
    (void)unused, (void)total, (void)now, (void)upload, (void)uploaded;
    stint_checkpoint();
    return stint_is_interrupted();
}

struct transfer {
    const char *url;
    size_t received;
    CURLcode result;
    stint_token *when_first; /* to be set as soon as something has come */
};

/* Received data is kept in blocks of the task, which are freed at the end. */
static size_t receive(char *data, size_t one, size_t size, void *argument)
{
    struct transfer *transfer = argument;
    (void)one;
    void *copy = malloc(size);
    if (copy == NULL)
        return 0;
    memcpy(copy, data, size);
    free(keep(copy));
    transfer->received += size;
    stint_token_set(transfer->when_first);
    return size;
}

static int fetch(void *argument, void **value)
{
    (void)value;
    struct transfer *transfer = argument;
    transfer->received = 0;
    CURL *handle = curl_easy_init();
    if (handle == NULL)
        return ENOMEM;
    curl_easy_setopt(handle, CURLOPT_URL, transfer->url);
    curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(handle, CURLOPT_NOPROXY, "*");
    curl_easy_setopt(handle, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(handle, CURLOPT_XFERINFOFUNCTION, look);
    curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, receive);
    curl_easy_setopt(handle, CURLOPT_WRITEDATA, transfer);
    transfer->result = curl_easy_perform(handle);
    curl_easy_cleanup(handle);
    return transfer->result == CURLE_OK ? 0 : EIO;
}

struct server {
    int listener;
    char url[64];
    size_t length; /* of what it sends to each client */
    bool endless;  /* more is promised to the client, and never comes */
    atomic_bool ending;
    pthread_t thread;
};

/* Serves its clients one after the other, each until it leaves. If asked to, it promises more than it sends. */
static void *serve(void *argument)
{
    struct server *server = argument;
    char *body = calloc(1, server->length);
    char text[1024];
    while (!server->ending) {
        int client = accept(server->listener, NULL, NULL);
        int length = snprintf(text, sizeof text, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n",
                              server->endless ? 2 * server->length : server->length);
        if (recv(client, text + length, sizeof text - (size_t)length, 0) > 0 &&
            send(client, text, (size_t)length, MSG_NOSIGNAL) > 0 &&
            send(client, body, server->length, MSG_NOSIGNAL) > 0) {
            while (recv(client, text, sizeof text, 0) > 0)
                ;
        }
        close(client);
    }
    free(body);
    return NULL;
}

static void start(struct server *server)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof address;
    server->listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(server->listener, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(server->listener, 10), 0);
    assert_int_equal(getsockname(server->listener, (struct sockaddr *)&address, &size), 0);
    snprintf(server->url, sizeof server->url, "http://127.0.0.1:%u/", ntohs(address.sin_port));
    assert_int_equal(pthread_create(&server->thread, NULL, serve, server), 0);
}

/* Closes the listener under a server that still waits. */
static void stop_server(struct server *server)
{
    server->ending = true;
    shutdown(server->listener, SHUT_RDWR);
    pthread_join(server->thread, NULL);
    close(server->listener);
}

TEST(a_transfer_may_run_out_of_memory_anywhere_and_leaves_no_descriptor)
{
    size_t descriptors = open_descriptors();
    struct server server = { .length = 50000, .endless = false };
    start(&server);
    struct transfer transfer = { .url = server.url };
    stint_options options = STINT_OPTIONS_INIT;
    options.on_interrupt = STINT_FAIL;
    stint_outcome whole = run_task(fetch, &transfer, &options);
    assert_ok(whole);
    assert_int_equal(transfer.received, server.length);

    uint64_t random = 42;
    size_t before = 0;
    unsigned stopped = 0;
    for (int i = 0; i < RUNS; i++) {
        options.budget.allocation = 1 + random_below(&random, whole.usage.allocated);
        stint_outcome outcome = run_task(fetch, &transfer, &options);
        /* How much it takes depends on how the body comes in. */
        if (outcome.status != STINT_OK) {
            assert_limit_passed(outcome);
            stopped++;
        }
        if (i == RUNS / 10)
            before = resident();
    }
    assert_true(stopped > RUNS / 2);
    assert_in_range(resident(), 0, before + 4 * MIB);
    options.budget.allocation = 0;
    assert_ok(run_task(fetch, &transfer, &options));
    assert_int_equal(transfer.received, server.length);
    stop_server(&server);
    assert_int_equal(open_descriptors(), descriptors);
}

TEST(a_transfer_that_waits_for_ever_ends_when_its_token_is_set)
{
    size_t descriptors = open_descriptors();
    struct server server = { .length = 5, .endless = true };
    start(&server);
    struct transfer transfer = { .url = server.url };
    stint_options options = STINT_OPTIONS_INIT;
    options.on_interrupt = STINT_FAIL;
    assert_int_equal(stint_token_create(NULL, &transfer.when_first), 0);
    options.token = transfer.when_first;
    assert_cancelled(run_task(fetch, &transfer, &options), STINT_REASON_TOKEN);
    assert_true(transfer.received <= server.length);
    assert_int_not_equal(transfer.result, CURLE_OK);
    stint_token_release(transfer.when_first);
    stop_server(&server);
    assert_int_equal(open_descriptors(), descriptors);
}

int main(void)
{
    if (curl_global_init(CURL_GLOBAL_ALL) != CURLE_OK)
        return 1;
    return run_all_tests(NULL, NULL);
}
