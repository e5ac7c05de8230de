/* SPDX-License-Identifier: MIT
 *
 * Automatic masking for libc and the loader: whose allocations wait, whose blocks are the process's, and which frames
 * no jump may leave behind. */
#include "masking.h"

#include <dirent.h>
#include <dlfcn.h>
#include <ftw.h>
#include <iconv.h>
#include <link.h>
#include <netdb.h>
#include <nss.h>
#include <printf.h>

#include "masking_lib/library.h"

static bool hook_is_armed;

/* Only the first call inside the task trips it. */
STINT_API void masking_hook(void)
{
    if (!hook_is_armed)
        return;
    hook_is_armed = false;
    trip_and_allocate();
}

static void run_with_hook(void (*work)(const void *), const void *detail)
{
    hook_is_armed = true;
    stint_outcome outcome = run_tripped(STINT_JUMP, work, detail);
    REQUIRE(!hook_is_armed);
    REQUIRE(!masking_rule_on || outcome.usage.deferred > 0);
}

/* vfprintf has a list of so many conversions. (It holds the stream's lock too, which glibc's longjmp gives back.) */

#define CONVERSIONS 16384

static int print_with_hook(FILE *stream, const struct printf_info *info, const void *const *arguments)
{
    (void)info;
    (void)arguments;
    masking_hook();
    return fputs("hooked", stream);
}

static int takes_no_argument(const struct printf_info *info, size_t count, int *types, int *sizes)
{
    (void)info;
    (void)count;
    (void)types;
    (void)sizes;
    return 0;
}

static void print(const void *stream, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vfprintf((FILE *)(uintptr_t)stream, format, arguments);
    va_end(arguments);
}

static void print_hooked(const void *stream)
{
    static char format[2 * CONVERSIONS + 1];
    for (size_t i = 0; i < CONVERSIONS; i++)
        memcpy(format + 2 * i, "%Y", 2);
    hook_is_armed = true;
    print(stream, format);
    REQUIRE(!hook_is_armed);
}

static void jump_out_of_vfprintf(const void *detail)
{
    (void)detail;
    FILE *stream = fopen("/dev/null", "w");
    REQUIRE(stream != NULL && register_printf_specifier('Y', print_with_hook, takes_no_argument) == 0);
    check_nothing_is_left(print_hooked, stream);
    CHECK(fclose(stream) == 0);
}

/* fwrite holds the stream's lock. */

static ssize_t write_with_hook(void *cookie, const char *bytes, size_t count)
{
    (void)cookie;
    (void)bytes;
    masking_hook();
    return (ssize_t)count;
}

static void write_hooked(const void *stream)
{
    fwrite("hooked", 1, 6, (FILE *)(uintptr_t)stream);
}

static void *write_elsewhere(void *stream)
{
    watch();
    write_hooked(stream);
    return NULL;
}

static void jump_out_of_fwrite(const void *detail)
{
    (void)detail;
    static const cookie_io_functions_t functions = { .write = write_with_hook };
    FILE *stream = fopencookie(NULL, "w", functions);
    REQUIRE(stream != NULL && setvbuf(stream, NULL, _IONBF, 0) == 0);
    run_with_hook(write_hooked, stream);
    in_another_thread(write_elsewhere, stream);
    CHECK(fclose(stream) == 0);
}

/* gethostbyname holds a lock, getaddrinfo has a buffer. */

static void look_up_old(const void *detail)
{
    (void)detail;
    gethostbyname("masking.test");
}

static void jump_out_of_gethostbyname(const void *detail)
{
    (void)detail;
    REQUIRE(__nss_configure_lookup("hosts", "masking") == 0);
    run_with_hook(look_up_old, NULL);
    watch();
    CHECK(gethostbyname("masking.test") == NULL && h_errno == HOST_NOT_FOUND);
}

static void look_up(const void *detail)
{
    (void)detail;
    struct addrinfo *found = NULL;
    hook_is_armed = true;
    getaddrinfo("masking.test", NULL, NULL, &found);
    REQUIRE(!hook_is_armed);
}

static void jump_out_of_getaddrinfo(const void *detail)
{
    (void)detail;
    REQUIRE(__nss_configure_lookup("hosts", "masking") == 0);
    check_nothing_is_left(look_up, NULL);
}

/* qsort has an array of its own for a sort of this size. */

#define RECORDS ((size_t)1 << 15)

struct record {
    uint64_t key;
    char rest[24];
};
static struct record records[RECORDS];
static size_t compared;
static bool jumps_by_itself;
static jmp_buf outside;

static int compare(const void *left, const void *right)
{
    uint64_t a = ((const struct record *)left)->key;
    uint64_t b = ((const struct record *)right)->key;
    if (++compared == 12 * RECORDS) { /* near the end: it takes 14 times */
        if (jumps_by_itself)
            longjmp(outside, 1);
        trip_and_allocate();
    }
    return (a > b) - (a < b);
}

static void sort(const void *detail)
{
    (void)detail;
    for (size_t i = 0; i < RECORDS; i++)
        records[i].key = i * UINT64_C(0x9e3779b97f4a7c15);
    compared = 0;
    qsort(records, RECORDS, sizeof records[0], compare);
    REQUIRE(compared >= 12 * RECORDS);
}

static void jump_out_of_qsort(const void *detail)
{
    (void)detail;
    check_nothing_is_left(sort, NULL);
}

/* Does this libc's qsort lose its array if it is left like that? That of glibc 2.43 does not. */
static bool qsort_loses_its_array(void)
{
    size_t before = masking_resident();
    jumps_by_itself = true;
    for (volatile int i = 0; i < 64; i++) {
        if (setjmp(outside) == 0)
            sort(NULL);
    }
    return masking_resident() >= before + ((size_t)16 << 20);
}

/* scandir and nftw have a folder open. */

static int lowest_free_descriptor(void)
{
    int lowest = dup(STDERR_FILENO);
    REQUIRE(lowest >= 0);
    close(lowest);
    return lowest;
}

static int want(const struct dirent *entry)
{
    (void)entry;
    masking_hook();
    return 0;
}

static void list_folder(const void *detail)
{
    (void)detail;
    struct dirent **entries = NULL;
    scandir("/", &entries, want, NULL);
}

static int visit(const char *path, const struct stat *info, int kind, struct FTW *where)
{
    (void)path;
    (void)info;
    (void)kind;
    if (where->level > 0)
        masking_hook();
    return where->level > 0;
}

static void walk_folder(const void *detail)
{
    (void)detail;
    nftw("/", visit, 4, FTW_PHYS);
}

static void (*const folder_readers[])(const void *) = { list_folder, walk_folder };

static void jump_out_of_a_folder(const void *reader)
{
    int before = lowest_free_descriptor();
    run_with_hook(*(void (*const *)(const void *))reader, NULL);
    CHECK(lowest_free_descriptor() == before);
}

/* The loader and iconv_open hold locks. */

static int visit_module(struct dl_phdr_info *info, size_t size, void *calls)
{
    (void)info;
    (void)size;
    masking_hook();
    ++*(int *)calls;
    return 0;
}

static void list_modules(const void *detail)
{
    (void)detail;
    int calls = 0;
    dl_iterate_phdr(visit_module, &calls);
}

static void *list_modules_elsewhere(void *calls)
{
    watch();
    dl_iterate_phdr(visit_module, calls);
    return NULL;
}

static void jump_out_of_dl_iterate_phdr(const void *detail)
{
    (void)detail;
    run_with_hook(list_modules, NULL);
    int calls = 0;
    in_another_thread(list_modules_elsewhere, &calls);
    CHECK(calls > 2);
}

static void load(const void *detail)
{
    (void)detail;
    dlopen("libmasking-constructor.so", RTLD_NOW);
}

static void *load_elsewhere(void *result)
{
    watch();
    *(void **)result = dlopen("libmasking-library.so", RTLD_NOW);
    return NULL;
}

static void jump_out_of_dlopen(const void *detail)
{
    (void)detail;
    run_with_hook(load, NULL);
    void *library = NULL;
    in_another_thread(load_elsewhere, &library);
    CHECK(library != NULL && dlsym(library, "masking_work") != NULL);
    CHECK(dlopen("libmasking-constructor.so", RTLD_NOW) != NULL);
}

static void open_converter(const void *detail)
{
    (void)detail;
    iconv_open("MASKING", "UTF-8");
}

static void jump_out_of_iconv_open(const void *detail)
{
    (void)detail;
    run_with_hook(open_converter, NULL);
    watch();
    iconv_t converter = iconv_open("MASKING", "UTF-8");
    CHECK(converter != (iconv_t)-1);
    CHECK(iconv_close(converter) == 0);
}

/* A library that the user protects. */

static void *library_function(const char *name)
{
    void *library = dlopen("libmasking-library.so", RTLD_NOW);
    REQUIRE(library != NULL);
    void *function = dlsym(library, name);
    REQUIRE(function != NULL);
    return function;
}

static void call_library(const void *detail)
{
    void (*work)(void);
    *(void **)&work = (void *)(uintptr_t)detail;
    work();
}

static void jump_out_of_a_protected_module(const void *detail)
{
    (void)detail;
    int (*is_busy)(void);
    *(void **)&is_busy = library_function("masking_is_busy");
    REQUIRE(stint_module_protect("libmasking") == 0);
    run_with_hook(call_library, library_function("masking_work"));
    CHECK(!is_busy());
}

/* A refused allocation makes the loader end the process, in any mode; beyond the grace too. */

static void touch_thread_local(const void *detail)
{
    char *(*variable)(void);
    *(void **)&variable = (void *)(uintptr_t)detail;
    trip();
    stint_mask();
    allocate_past_the_grace();
    stint_unmask();
    *variable() = 1;
}

static void refuse_the_loader(const void *detail)
{
    (void)detail;
    char *(*variable)(void);
    *(void **)&variable = library_function("masking_large_thread_local");
    run_tripped(STINT_FAIL, touch_thread_local, *(void **)&variable);
    CHECK(*variable() == 1);
}

/* A stream from outside the task gets its buffer inside, and the heap's own scan of roots does not look there. */

static void print_and_trip(const void *stream)
{
    fputs("written in the task", (FILE *)(uintptr_t)stream);
    trip();
}

static void lose_the_buffer(const void *detail)
{
    (void)detail;
    FILE *stream = tmpfile();
    REQUIRE(stream != NULL);
    run_tripped(STINT_JUMP, print_and_trip, stream);
    overwrite_freed_blocks(4096);
    CHECK(fflush(stream) == 0);
    char text[64] = "";
    CHECK(pread(fileno(stream), text, sizeof text - 1, 0) > 0);
    CHECK(strcmp(text, "written in the task") == 0);
    CHECK(fclose(stream) == 0);
}

int main(int argc, char **argv)
{
    static struct masking_case cases[] = {
        { "a jump out of vfprintf", STI_RULE_STACK, CHECK_FAILS, jump_out_of_vfprintf, NULL },
        { "a jump out of fwrite", STI_RULE_STACK, HANGS, jump_out_of_fwrite, NULL },
        { "a jump out of gethostbyname", STI_RULE_STACK, HANGS, jump_out_of_gethostbyname, NULL },
        { "a jump out of getaddrinfo", STI_RULE_STACK, CHECK_FAILS, jump_out_of_getaddrinfo, NULL },
        { "a jump out of a scandir filter", STI_RULE_STACK, CHECK_FAILS, jump_out_of_a_folder, &folder_readers[0] },
        { "a jump out of an nftw visitor", STI_RULE_STACK, CHECK_FAILS, jump_out_of_a_folder, &folder_readers[1] },
        { "a jump out of dl_iterate_phdr", STI_RULE_STACK, HANGS, jump_out_of_dl_iterate_phdr, NULL },
        { "a jump out of dlopen", STI_RULE_STACK, HANGS, jump_out_of_dlopen, NULL },
        { "a jump out of iconv_open", STI_RULE_STACK, HANGS, jump_out_of_iconv_open, NULL },
        { "a jump out of a protected module", STI_RULE_STACK, CHECK_FAILS, jump_out_of_a_protected_module, NULL },
        { "an allocation of the loader refused", STI_RULE_CALLER, PROCESS_ENDS, refuse_the_loader, NULL },
        { "a stream's buffer rolled back", STI_RULE_PROCESS_BLOCKS, CHECK_FAILS | CRASHES, lose_the_buffer, NULL },
        { "a jump out of a qsort comparator", STI_RULE_STACK, CHECK_FAILS, jump_out_of_qsort, NULL }, /* the last */
    };
    size_t count = sizeof cases / sizeof cases[0];
    if (argc == 1 && !qsort_loses_its_array()) {
        print_message("A jump out of this libc's qsort does no damage that a rule could be seen to prevent.\n");
        count--;
    }
    return masking_main(argc, argv, cases, count);
}
