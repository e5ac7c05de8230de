/* SPDX-License-Identifier: MIT
 *
 * State that libc makes at its first use and keeps, if a task that is rolled back uses it first: the next user finds
 * it whole. Each case runs in processes of its own; in one of them no task runs, which shows the right answers. */
#include "support.h"

#include <dlfcn.h>
#include <grp.h>
#include <iconv.h>
#include <langinfo.h>
#include <libintl.h>
#include <locale.h>
#include <netdb.h>
#include <printf.h>
#include <pwd.h>
#include <regex.h>
#include <search.h>
#include <signal.h>
#include <syslog.h>
#include <ttyent.h>
#include <utmpx.h>
#include <wchar.h>
#include <wctype.h>

#define ROOM 1000

/* Prints the findings. */
typedef void use_fn(char *out);

static void use_time(char *out)
{
    setenv("TZ", ":Europe/Berlin", 1);
    tzset();
    time_t when = 1700000000;
    strftime(out, ROOM, "%c %Z", localtime(&when));
}

static void use_users(char *out)
{
    const struct passwd *user = getpwnam("root");
    const struct group *group = getgrgid(0);
    snprintf(out, ROOM, "%s %s", user != NULL ? user->pw_dir : "", group != NULL ? group->gr_name : "");
}

static void use_all_users(char *out)
{
    setpwent();
    for (int i = 0; i < 5; i++) {
        const struct passwd *user = getpwent();
        if (user != NULL)
            strcat(out, user->pw_name);
    }
    endpwent();
}

static void use_hosts(char *out)
{
    const struct hostent *host = gethostbyname("localhost");
    snprintf(out, ROOM, "%s", host != NULL ? host->h_name : "");
}

static void use_services(char *out)
{
    const struct servent *service = getservbyname("http", "tcp");
    const struct protoent *protocol = getprotobynumber(6);
    snprintf(out, ROOM, "%d %s", service != NULL ? service->s_port : 0, protocol != NULL ? protocol->p_name : "");
}

static void use_addresses(char *out)
{
    struct addrinfo *list = NULL;
    const struct addrinfo hints = { .ai_flags = AI_NUMERICHOST };
    int error = getaddrinfo("127.0.0.1", "80", &hints, &list);
    snprintf(out, ROOM, "%d %d", error, error == 0 ? (int)list->ai_addrlen : 0);
    if (error == 0)
        freeaddrinfo(list);
}

static void use_errors(char *out)
{
    snprintf(out, ROOM, "%s %s %s", strerror(12345), strsignal(60), gai_strerror(EAI_NONAME));
}

static void use_loader(char *out)
{
    void *module = dlopen("libthat-is-nowhere.so", RTLD_NOW);
    snprintf(out, ROOM, "%d %s", module == NULL, dlerror());
}

static void use_locale(char *out)
{
    const char *name = setlocale(LC_ALL, "C.UTF-8");
    snprintf(out, ROOM, "%s %s %lc", name != NULL ? name : "", nl_langinfo(CODESET), (wint_t)0xe4);
}

static void use_wide(char *out)
{
    wchar_t wide[20];
    mbstate_t state = { 0 };
    const char *text = "\xc3\xa4\xc3\xb6";
    setlocale(LC_CTYPE, "C.UTF-8");
    size_t count = mbsrtowcs(wide, &text, 20, &state);
    snprintf(out, ROOM, "%zu %d %d", count, (int)wide[0], iswalpha((wint_t)wide[1]) != 0);
}

static void use_conversion(char *out)
{
    char text[] = "\xe4";
    char *from = text;
    char *to = out;
    size_t left = 1;
    size_t room = ROOM;
    iconv_t conversion = iconv_open("UTF-8", "ISO-8859-15");
    if (conversion == (iconv_t)-1)
        return;
    iconv(conversion, &from, &left, &to, &room);
    iconv_close(conversion);
}

/* Another conversion, which libc looks up for itself. */
static void use_wide_stream(char *out)
{
    FILE *stream = fopen("/proc/self/comm", "r,ccs=ISO-8859-7");
    if (stream == NULL)
        return;
    snprintf(out, ROOM, "%d", (int)fgetwc(stream));
    fclose(stream);
}

static void use_messages(char *out)
{
    setlocale(LC_ALL, "C.UTF-8");
    bindtextdomain("nothing", "/nowhere");
    textdomain("nothing");
    snprintf(out, ROOM, "%s %s", gettext("text"), bindtextdomain("nothing", NULL));
}

static void use_standard_output(char *out)
{
    static FILE *stream;
    if (stream == NULL)
        stream = fopen("/dev/null", "w");
    snprintf(out, ROOM, "%d", stream != NULL && fputs("text", stream) >= 0 && fflush(stream) == 0);
}

static void use_standard_input(char *out)
{
    static bool redirected;
    if (!redirected && freopen("/proc/self/stat", "r", stdin) == NULL)
        return;
    redirected = true;
    rewind(stdin);
    snprintf(out, ROOM, "%d", getchar() != EOF);
    ungetc('x', stdin);
}

static int print_hello(FILE *stream, const struct printf_info *info, const void *const *arguments)
{
    (void)info;
    (void)arguments;
    return fprintf(stream, "hello");
}

static int take_none(const struct printf_info *info, size_t count, int *types, int *sizes)
{
    (void)info;
    (void)count;
    (void)types;
    (void)sizes;
    return 0;
}

static void use_own_conversion(char *out)
{
    static const char format[] = "%W %d";
    register_printf_specifier('W', print_hello, take_none);
    int (*print)(char *, size_t, const char *, ...) = snprintf;
    print(out, ROOM, format, 42);
}

static void use_environment(char *out)
{
    char name[20];
    for (int i = 0; i < 50; i++) {
        snprintf(name, sizeof name, "NAME_%d", i);
        setenv(name, "value", 1);
    }
    snprintf(out, ROOM, "%s", getenv("NAME_49"));
}

static int compare(const void *left, const void *right)
{
    return *(const int *)left - *(const int *)right;
}

static void use_sort(char *out)
{
    static int numbers[1 << 16];
    for (int i = 0; i < 1 << 16; i++)
        numbers[i] = (i * 7919) % (1 << 16);
    qsort(numbers, 1 << 16, sizeof *numbers, compare);
    snprintf(out, ROOM, "%d %d", numbers[0], numbers[65535]);
}

static void use_table(char *out)
{
    static bool made;
    ENTRY entry = { .key = (char *)(uintptr_t) "key", .data = NULL };
    if (!made)
        made = hcreate(100) != 0;
    snprintf(out, ROOM, "%d", hsearch(entry, ENTER) != NULL && hsearch(entry, FIND) != NULL);
}

/* From a header that no standard asks for any more. */
extern char *re_comp(const char *pattern);
extern int re_exec(const char *text);

static void use_pattern(char *out)
{
    snprintf(out, ROOM, "%s", re_comp("a[bc]*d") != NULL ? "bad" : re_exec("xabcbd") == 1 ? "found" : "lost");
}

static void use_random(char *out)
{
    srandom(1);
    srand48(1);
    snprintf(out, ROOM, "%ld %ld", random(), lrand48());
}

static void use_log(char *out)
{
    openlog("test", LOG_NDELAY, LOG_USER);
    setlogmask(LOG_UPTO(LOG_EMERG));
    syslog(LOG_DEBUG, "nothing");
    closelog();
    snprintf(out, ROOM, "closed");
}

static void *return_it(void *arg)
{
    return arg;
}

static void use_threads(char *out)
{
    pthread_t thread;
    void *result = NULL;
    for (int i = 0; i < 3; i++) {
        if (pthread_create(&thread, NULL, return_it, out) == 0)
            pthread_join(thread, &result);
    }
    snprintf(out, ROOM, "%d", result == out);
}

static void handle_nothing(void)
{
}

static void use_handlers(char *out)
{
    for (int i = 0; i < 100; i++) {
        atexit(handle_nothing);
        pthread_atfork(handle_nothing, handle_nothing, handle_nothing);
    }
    int status = -1;
    pid_t child = fork();
    if (child == 0)
        exit(7);
    waitpid(child, &status, 0);
    snprintf(out, ROOM, "%d", WEXITSTATUS(status));
}

static void use_keys(char *out)
{
    static pthread_key_t keys[100];
    for (int i = 0; i < 100 && keys[99] == 0; i++) {
        pthread_key_create(&keys[i], NULL);
        pthread_setspecific(keys[i], &keys[i]);
    }
    pthread_setspecific(keys[99], out);
    snprintf(out, ROOM, "%d", pthread_getspecific(keys[99]) == out);
}

static void use_tokens(char *out)
{
    char text[] = "one two three";
    strtok(text, " ");
    snprintf(out, ROOM, "%s", strtok(NULL, " "));
}

static void use_logins(char *out)
{
    setutxent();
    getutxent();
    endutxent();
    snprintf(out, ROOM, "%d", setttyent() + endttyent() > 0);
}

static const struct use {
    const char *name;
    use_fn *use;
} uses[] = {
    { "time zones", use_time },
    { "users", use_users },
    { "all users", use_all_users },
    { "hosts", use_hosts },
    { "services", use_services },
    { "addresses", use_addresses },
    { "texts of errors", use_errors },
    { "errors of the loader", use_loader },
    { "locales", use_locale },
    { "wide characters", use_wide },
    { "conversions", use_conversion },
    { "a stream's conversion", use_wide_stream },
    { "catalogues", use_messages },
    { "a stream's buffer", use_standard_output },
    { "standard input", use_standard_input },
    { "conversions of printf", use_own_conversion },
    { "the environment", use_environment },
    { "a large sort", use_sort },
    { "the table of hsearch", use_table },
    { "the pattern of re_comp", use_pattern },
    { "random numbers", use_random },
    { "the log", use_log },
    { "threads and their stacks", use_threads },
    { "handlers of exit and fork", use_handlers },
    { "specific values", use_keys },
    { "tokens", use_tokens },
    { "logins", use_logins },
};

enum { OUTSIDE, FAILING, INTERRUPTED, UNWOUND, UNSCANNED, WAYS };

struct first_use {
    use_fn *use;
    int way;
};

static int use_first(void *arg, void **value)
{
    const struct first_use *first = arg;
    char out[ROOM] = "";
    (void)value;
    first->use(out);
    for (int i = 0; i < 100; i++)
        keep(malloc(100));
    while (first->way == INTERRUPTED || first->way == UNWOUND)
        keep(malloc(1000));
    return EIO;
}

/* In a process of its own: the first use as the way says, then the second, whose result is printed. */
static void use_twice(const struct use *use, int way, int told)
{
    struct first_use first = { .use = use->use, .way = way };
    char out[ROOM] = "";
    alarm(30);
    if (way == OUTSIDE) {
        use->use(out);
    } else {
        stint_options options = { .size = sizeof(stint_options),
                                  .on_interrupt = way == UNWOUND ? STINT_UNWIND : STINT_JUMP };
        options.budget.allocation = 4 * MIB;
        if (way == UNSCANNED && stint_roots_set_scan(STINT_ROOT_SCAN_NEVER) != 0)
            _exit(4);
        stint_outcome outcome = run_task(use_first, &first, &options);
        if (outcome.status != STINT_ERROR)
            _exit(2);
        run_task(fill_blocks, NULL, NULL);
    }
    memset(out, 0, sizeof out);
    use->use(out);
    _exit(write(told, out, sizeof out) == sizeof out ? 0 : 3);
}

static void second_use(const struct use *use, int way, char *out)
{
    int ends[2];
    int status = -1;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0)
        use_twice(use, way, ends[1]);
    close(ends[1]);
    memset(out, 0, ROOM);
    ssize_t length = read(ends[0], out, ROOM);
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    if (status != 0 || length != ROOM)
        fail_msg("%s, in way %d: status %x", use->name, way, (unsigned)status);
}

TEST(what_libc_has_made_in_a_task_is_whole_afterwards)
{
    for (size_t i = 0; i < sizeof uses / sizeof *uses; i++) {
        char right[ROOM];
        second_use(&uses[i], OUTSIDE, right);
        /* Without a scan the library does not know of the variable that keeps the stream open. */
        int ways = uses[i].use == use_standard_output ? UNSCANNED : WAYS;
        for (int way = FAILING; way < ways; way++) {
            char out[ROOM];
            second_use(&uses[i], way, out);
            if (strcmp(out, right) != 0)
                fail_msg("%s, in way %d: %s in place of %s", uses[i].name, way, out, right);
        }
    }
}

TEST_MAIN()
