/* SPDX-License-Identifier: MIT
 *
 * The first printf, fopen, setlocale ... of a process, made inside a task that is then interrupted: the process goes on
 * using each of them. What libc allocates at such a first use must outlive the task, and no interrupt may leave libc in
 * the middle of it.
 *
 * Without arguments, this program runs itself once for each function and way to be interrupted, in a fresh process. */
#include "support.h"

#include <arpa/inet.h>
#include <iconv.h>
#include <locale.h>
#include <netdb.h>
#include <spawn.h>
#include <sys/mman.h>
#include <wchar.h>

extern char **environ;

#define LINE "a line\n"

/* Every use returns whether all went as it should; the first one is in the task. */

static bool use_printf(void)
{
    return printf("%s", LINE) == (int)strlen(LINE) && fflush(stdout) == 0;
}

static bool use_wide_printf(void)
{
    wchar_t text[64];
    return swprintf(text, 64, L"%.3f %ls", 1.5, L"wide") == 10 && wcscmp(text, L"1.500 wide") == 0;
}

static bool use_fopen(void)
{
    char line[64] = "";
    FILE *file = fopen("/proc/self/comm", "r");
    if (file == NULL)
        return false;
    bool good = fgets(line, sizeof line, file) == line && line[0] != '\0';
    return fclose(file) == 0 && good;
}

static bool use_setlocale(void)
{
    const char *locale = setlocale(LC_ALL, "C.UTF-8");
    if (locale == NULL || strcmp(locale, "C.UTF-8") != 0 || mbstowcs(NULL, "\xc3\xa4", 0) != 1)
        return false;
    return setlocale(LC_ALL, "C") != NULL;
}

static bool use_localtime(void)
{
    const time_t time = 86400 * 200;
    char text[64];
    struct tm *broken_down = localtime(&time);
    return broken_down != NULL && broken_down->tm_year == 70 && strftime(text, sizeof text, "%Z %c", broken_down) > 0;
}

static bool use_strerror(void)
{
    return strcmp(strerror(987654), "Unknown error 987654") == 0 &&
           strcmp(strerror(87654), "Unknown error 87654") == 0 && strcmp(strsignal(9876), "Unknown signal 9876") == 0;
}

static bool resolve(const char *name, int flags)
{
    const struct addrinfo hints = { .ai_family = AF_INET, .ai_socktype = SOCK_STREAM, .ai_flags = flags };
    struct addrinfo *found = NULL;
    if (getaddrinfo(name, "80", &hints, &found) != 0)
        return false;
    struct sockaddr_in address;
    memcpy(&address, found->ai_addr, sizeof address);
    freeaddrinfo(found);
    return address.sin_addr.s_addr == htonl(INADDR_LOOPBACK) && address.sin_port == htons(80);
}

static bool use_getaddrinfo_numeric(void)
{
    return resolve("127.0.0.1", AI_NUMERICHOST);
}

static bool use_getaddrinfo_localhost(void)
{
    return resolve("localhost", 0);
}

static bool convert(const char *to, const char *expected, size_t length)
{
    iconv_t conversion = iconv_open(to, "UTF-8");
    if (conversion == (iconv_t)-1)
        return false;
    char text[] = "\xc3\xa4";
    char result[16];
    char *in = text;
    char *out = result;
    size_t in_left = 2;
    size_t out_left = sizeof result;
    bool good = iconv(conversion, &in, &in_left, &out, &out_left) == 0 && sizeof result - out_left == length &&
                memcmp(result, expected, length) == 0;
    return iconv_close(conversion) == 0 && good;
}

static bool use_iconv(void)
{
    return convert("ISO-8859-1", "\xe4", 1) && convert("UTF-16LE", "\xe4\0", 2) && convert("UTF-16BE", "\0\xe4", 2);
}

static const struct use {
    const char *name;
    bool (*use)(void);
} uses[] = {
    { "printf", use_printf },
    { "wide_printf", use_wide_printf },
    { "fopen", use_fopen },
    { "setlocale", use_setlocale },
    { "localtime", use_localtime },
    { "strerror", use_strerror },
    { "getaddrinfo_numeric", use_getaddrinfo_numeric },
    { "getaddrinfo_localhost", use_getaddrinfo_localhost },
    { "iconv", use_iconv },
};

enum way { LIMIT_INSIDE, TOKEN_INSIDE, LIMIT_AFTER, FAIL_INSIDE, FAIL_AFTER, WAYS };
static const char *const way_names[] = { "limit-inside", "token-inside", "limit-after", "fail-inside", "fail-after" };

struct first_use {
    const struct use *use;
    enum way way;
    stint_token *token;
    volatile bool called;
    volatile bool good;
};

static int use_in_a_task(void *arg, void **value)
{
    struct first_use *first = arg;
    (void)value;
    keep(malloc(100));
    if (first->way == TOKEN_INSIDE)
        stint_token_set(first->token);
    first->good = first->use->use();
    first->called = true;
    for (;;) {
        if (keep(malloc(1000)) == NULL)
            return 0;
    }
}

static void *try_stdout(void *arg)
{
    *(bool *)arg = ftrylockfile(stdout) == 0;
    if (*(bool *)arg)
        funlockfile(stdout);
    return NULL;
}

/* Blocks of the sizes that the task had, filled: what libc wrongly left in the task's heap would be overwritten. */
static void overwrite_free_memory(void)
{
    enum { COUNT = 2000 };
    static void *blocks[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        blocks[i] = memset(malloc(8 + i), 0xee, 8 + i);
    for (size_t i = 0; i < COUNT; i++)
        free(blocks[i]);
}

static int fill_a_heap(void *arg, void **value)
{
    (void)arg;
    (void)value;
    overwrite_free_memory();
    return 1;
}

static const char *run_first_use(const struct use *use, enum way way)
{
    struct first_use first = { .use = use, .way = way };
    stint_options options = STINT_OPTIONS_INIT;
    int output = memfd_create("output", 0);
    if (output < 0 || dup2(output, STDOUT_FILENO) < 0)
        return "the test's own file";
    if (way == TOKEN_INSIDE && stint_token_create(NULL, &first.token) != 0)
        return "the test's own token";
    options.token = first.token;
    options.on_interrupt = way == FAIL_INSIDE || way == FAIL_AFTER ? STINT_FAIL : STINT_JUMP;
    if (way == LIMIT_INSIDE || way == FAIL_INSIDE)
        options.budget.allocation = 112;
    else
        options.budget.allocation = 64 * MIB;

    stint_outcome outcome;
    if (stint_run(use_in_a_task, &first, &options, &outcome) != 0 || outcome.status == STINT_OK)
        return "the task was not stopped";
    if ((way == LIMIT_AFTER || way == FAIL_AFTER) && !first.good)
        return "the use in the task failed";

    stint_run(fill_a_heap, NULL, NULL, &outcome);
    overwrite_free_memory();
    bool free_to_lock = false;
    pthread_t thread;
    if (pthread_create(&thread, NULL, try_stdout, &free_to_lock) != 0 || pthread_join(thread, NULL) != 0)
        return "the test's own thread";
    if (!free_to_lock)
        return "stdout stayed locked";
    for (int i = 0; i < 3; i++) {
        if (!use->use())
            return "a use after the task failed";
    }
    if (use->use == use_printf) {
        static const char three[] = LINE LINE LINE;
        struct {
            char text[256];
        } written = { "" };
        ssize_t length = pread(output, written.text, sizeof written.text - 1, 0);
        if (length < (ssize_t)sizeof three - 1 || strcmp(written.text + length - (sizeof three - 1), three) != 0)
            return "what was printed after the task did not arrive";
    }
    stint_token_release(first.token);
    return NULL;
}

static int run_child(const char *name, const char *way_name)
{
    for (unsigned i = 0; i < sizeof uses / sizeof uses[0]; i++) {
        for (unsigned way = 0; way < WAYS; way++) {
            if (strcmp(uses[i].name, name) != 0 || strcmp(way_names[way], way_name) != 0)
                continue;
            const char *wrong = run_first_use(&uses[i], (enum way)way);
            if (wrong == NULL)
                return 0;
            dprintf(STDERR_FILENO, "%s, %s: %s\n", name, way_name, wrong);
            return 1;
        }
    }
    return 2;
}

static void run_itself(void **state)
{
    const struct use *use = *state;
    char self[4096];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(length > 0);
    self[length] = '\0';
    for (unsigned way = 0; way < WAYS; way++) {
        char *const arguments[] = { self, strdup(use->name), strdup(way_names[way]), NULL };
        pid_t child;
        assert_int_equal(posix_spawn(&child, self, NULL, NULL, arguments, environ), 0);
        assert_ends_well(child);
        free(arguments[1]);
        free(arguments[2]);
    }
}

/* A system without /etc/hosts has no such name. */
static void run_itself_if_there_is_localhost(void **state)
{
    pid_t child = fork();
    if (child == 0)
        _exit(!use_getaddrinfo_localhost());
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (status != 0)
        skip_because("localhost has no address here");
    run_itself(state);
}

int main(int count, char **arguments)
{
    if (count == 3)
        return run_child(arguments[1], arguments[2]);
    struct CMUnitTest tests[sizeof uses / sizeof uses[0]];
    for (unsigned i = 0; i < sizeof uses / sizeof uses[0]; i++) {
        tests[i] = (struct CMUnitTest){ uses[i].name, run_itself, NULL, NULL, (void *)(uintptr_t)&uses[i] };
        if (uses[i].use == use_getaddrinfo_localhost)
            tests[i].test_func = run_itself_if_there_is_localhost;
    }
    return _cmocka_run_group_tests("first use of libc in a task", tests, sizeof tests / sizeof tests[0], NULL, NULL);
}
