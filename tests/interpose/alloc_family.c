/* SPDX-License-Identifier: MIT
 *
 * The allocation functions' edge cases, inside a task and outside, for every family that the build has; and libc's
 * functions that hand their own block to the caller. Compiled a second time with _FORTIFY_SOURCE where malloc is
 * replaced. */
#include "support.h"

#include <limits.h>
#include <malloc.h>

/* Each check returns the line of its first mistake, 0 for none, so that it can run inside a task. */
#define EXPECT(condition)                                                                                              \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            return __LINE__;                                                                                           \
    } while (0)

typedef int check_fn(const struct family *family);

struct check {
    check_fn *check;
    const struct family *family;
};

static int run_check(void *arg, void **value)
{
    const struct check *check = arg;
    (void)value;
    return check->check(check->family);
}

/* In no scope, in a task, and in one inside another. */
static void run_everywhere(check_fn *check)
{
    for (unsigned i = 0; family_at(i) != NULL; i++) {
        struct check it = { check, family_at(i) };
        assert_int_equal(check(it.family), 0);
        assert_int_equal(run_task(run_check, &it, NULL).error, 0);
    }
}

/* Sizes that the compiler must not know, or it refuses them itself. */
static size_t hidden(size_t size)
{
    __asm__ volatile("" : "+r"(size));
    return size;
}

static int check_zero_sizes(const struct family *family)
{
    void *blocks[] = { family->malloc(hidden(0)),
                       family->calloc(hidden(0), 10),
                       family->calloc(10, hidden(0)),
                       family->realloc(NULL, hidden(0)),
                       family->strdup(""),
                       family->strndup("x", hidden(0)),
                       family->aligned_alloc(64, hidden(0)) };
    for (unsigned i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
        EXPECT(blocks[i] != NULL);
        for (unsigned j = 0; j < i; j++)
            EXPECT(blocks[i] != blocks[j]);
    }
    for (unsigned i = 0; i < sizeof blocks / sizeof blocks[0]; i++)
        family->free(blocks[i]);
    void *block = family->realloc(family->malloc(100), hidden(0));
    EXPECT(block != NULL);
    family->free(block);
    family->free(NULL);
    EXPECT(family->usable_size(NULL) == 0);
    return 0;
}

TEST(zero_sizes_give_blocks_of_their_own)
{
    run_everywhere(check_zero_sizes);
}

static int check_overflow(const struct family *family)
{
    static const size_t counts[][2] = {
        { SIZE_MAX, 2 }, { 2, SIZE_MAX }, { SIZE_MAX / 2 + 1, 2 }, { (size_t)1 << 32, (size_t)1 << 32 },
        { SIZE_MAX, 1 },
    };
    for (unsigned i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        size_t count = hidden(counts[i][0]);
        size_t size = hidden(counts[i][1]);
        errno = 0;
        EXPECT(family->calloc(count, size) == NULL && errno == ENOMEM);
        errno = 0;
        EXPECT(family->reallocarray(NULL, count, size) == NULL && errno == ENOMEM);
        char *block = family->strdup("still there");
        errno = 0;
        EXPECT(family->reallocarray(block, count, size) == NULL && errno == ENOMEM);
        errno = 0;
        EXPECT(family->realloc(block, hidden(SIZE_MAX - i * 4096)) == NULL && errno == ENOMEM);
        EXPECT(strcmp(block, "still there") == 0);
        family->free(block);
        errno = 0;
        EXPECT(family->aligned_alloc(4096, hidden(SIZE_MAX - i)) == NULL && errno == ENOMEM);
    }
    return 0;
}

TEST(products_and_sizes_that_overflow_are_refused)
{
    run_everywhere(check_overflow);
}

static int check_alignments(const struct family *family)
{
    for (size_t alignment = 1; alignment <= 4 * MIB; alignment *= 2) {
        for (size_t size = 1; size < 100000; size = size * 7 + 3) {
            char *block = family->aligned_alloc(alignment, size);
            EXPECT(block != NULL && (uintptr_t)block % alignment == 0 && family->usable_size(block) >= size);
            memset(block, 1, size);
            char *grown = family->realloc(block, size * 2);
            EXPECT(grown != NULL && grown[0] == 1 && grown[size - 1] == 1);
            family->free(grown);
            if (alignment < sizeof(void *))
                continue;
            void *out = NULL;
            EXPECT(family->posix_memalign(&out, alignment, size) == 0 && (uintptr_t)out % alignment == 0);
            family->free(out);
        }
    }
    static const size_t bad[] = { 0, 3, 24, 100, SIZE_MAX };
    for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char mark;
        void *out = &mark;
        errno = 0;
        EXPECT(family->posix_memalign(&out, hidden(bad[i]), 10) == EINVAL && out == &mark && errno == 0);
        EXPECT(family->aligned_alloc(hidden(bad[i]), 10) == NULL && errno == EINVAL);
    }
    char mark;
    void *out = &mark;
    EXPECT(family->posix_memalign(&out, hidden(4), 10) == EINVAL && out == &mark);
    return 0;
}

static int check_refused_posix_memalign(const struct family *family)
{
    char mark;
    void *out = &mark;
    errno = 0;
    EXPECT(family->posix_memalign(&out, 64, hidden(SIZE_MAX - 100)) == ENOMEM && out == &mark && errno == ENOMEM);
    return 0;
}

TEST(a_refused_posix_memalign_leaves_enomem_in_errno_as_in_glibc)
{
    run_everywhere(check_refused_posix_memalign);
}

TEST(alignments_are_kept_and_bad_ones_refused)
{
    run_everywhere(check_alignments);
}

static int check_contents(const struct family *family)
{
    for (size_t size = 1; size < 3 * MIB; size = size * 3 + 1) {
        unsigned char *zeroed = family->calloc(size, 1);
        EXPECT(zeroed != NULL);
        for (size_t i = 0; i < size; i++)
            EXPECT(zeroed[i] == 0);
        memset(zeroed, 0xab, size);
        unsigned char *grown = family->reallocarray(zeroed, size, 3);
        EXPECT(grown != NULL && grown[0] == 0xab && grown[size - 1] == 0xab && family->usable_size(grown) >= size * 3);
        unsigned char *shrunk = family->realloc(grown, size / 2 + 1);
        EXPECT(shrunk != NULL && shrunk[0] == 0xab && shrunk[size / 2] == 0xab);
        family->free(shrunk);
    }
    char *copy = family->strndup("abcdef", 3);
    EXPECT(strcmp(copy, "abc") == 0);
    family->free(copy);
    copy = family->strndup("abc", hidden(SIZE_MAX));
    EXPECT(strcmp(copy, "abc") == 0);
    family->free(copy);
    const char open_end[3] = { 'x', 'y', 'z' };
    copy = family->strndup(open_end, hidden(3));
    EXPECT(strcmp(copy, "xyz") == 0);
    family->free(copy);
    return 0;
}

TEST(blocks_hold_what_they_should)
{
    run_everywhere(check_contents);
}

static int check_errno(const struct family *family)
{
    errno = E2BIG;
    for (size_t size = 1; size < 3 * MIB; size *= 2) {
        void *block = family->realloc(family->calloc(1, size), size * 2);
        void *aligned = family->aligned_alloc(64, size);
        EXPECT(block != NULL && aligned != NULL);
        family->free(block);
        family->free(aligned);
    }
    EXPECT(errno == E2BIG);
    return 0;
}

TEST(success_leaves_errno_alone)
{
    run_everywhere(check_errno);
}

/* The tests below need a replaced malloc: then the blocks of libc's own functions are the task's. */

static int check_pages(const struct family *family)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void *block = valloc(100);
    EXPECT(block != NULL && (uintptr_t)block % page == 0);
    family->free(block);
    block = pvalloc(hidden(page + 1));
    EXPECT(block != NULL && (uintptr_t)block % page == 0 && malloc_usable_size(block) >= 2 * page);
    family->free(block);
    block = pvalloc(hidden(0));
    EXPECT(block != NULL && malloc_usable_size(block) >= page);
    family->free(block);
    void *(*volatile unknown)(size_t) = pvalloc; /* clang 21 takes it that a known one leaves errno alone */
    errno = 0;
    EXPECT(unknown(SIZE_MAX - 10) == NULL && errno == ENOMEM);
    block = memalign(256, 10);
    EXPECT(block != NULL && (uintptr_t)block % 256 == 0);
    family->free(block);
    return 0;
}

TEST(page_functions)
{
    if (!stint_malloc_is_overridden())
        skip_because("malloc is not stint's");
    run_everywhere(check_pages);
}

static __attribute__((format(printf, 2, 0))) int print_list(char **out, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vasprintf(out, format, arguments);
    va_end(arguments);
    return length;
}

static int check_printing(const struct family *family)
{
    char *out = NULL;
    EXPECT(asprintf(&out, "%d %s %5.2f", 42, "text", 1.5) == 13 && strcmp(out, "42 text  1.50") == 0);
    family->free(out);
    EXPECT(print_list(&out, "%s", "") == 0 && strcmp(out, "") == 0);
    family->free(out);
    EXPECT(print_list(&out, "%0*d", 100000, 7) == 100000 && strlen(out) == 100000 && out[99999] == '7');
    family->free(out);
    errno = ENOENT;
    EXPECT(asprintf(&out, "%m") > 0 && strcmp(out, strerror(ENOENT)) == 0);
    family->free(out);
    EXPECT(print_list(&out, "%ls", L"\x7fffffff") == -1); /* not to be encoded */
    return 0;
}

TEST(printing_to_a_block)
{
    if (!stint_malloc_is_overridden())
        skip_because("malloc is not stint's");
    run_everywhere(check_printing);
}

static FILE *file_of(const char *text, size_t length)
{
    FILE *file = tmpfile();
    if (file != NULL) {
        fwrite(text, 1, length, file);
        rewind(file);
    }
    return file;
}

static int check_lines(const struct family *family)
{
    char long_line[1001];
    memset(long_line, 'x', 1000);
    long_line[1000] = '\n';
    FILE *file = file_of("one\n\n\0zero\nlast", 14);
    EXPECT(file != NULL);
    char *line = NULL;
    size_t size = 12345; /* means nothing while line is NULL */
    EXPECT(getline(&line, &size, file) == 4 && strcmp(line, "one\n") == 0 && size >= 5);
    EXPECT(getline(&line, &size, file) == 1 && strcmp(line, "\n") == 0);
    EXPECT(getline(&line, &size, file) == 6 && memcmp(line, "\0zero\n", 7) == 0);
    char *before = line;
    EXPECT(getline(&line, &size, file) == 3 && strcmp(line, "las") == 0 && line == before);
    EXPECT(getline(&line, &size, file) == -1 && feof(file) && !ferror(file));
    fclose(file);
    family->free(line);

    file = file_of(long_line, sizeof long_line);
    line = family->malloc(3);
    size = 3;
    EXPECT(getline(&line, &size, file) == 1001 && size >= 1002 && memcmp(line, long_line, 1001) == 0 &&
           line[1001] == 0);
    rewind(file);
    EXPECT(getdelim(&line, &size, EOF, file) == 1001);
    fclose(file);

    file = file_of("a,bc", 4);
    EXPECT(getdelim(&line, &size, ',', file) == 2 && strcmp(line, "a,") == 0);
    EXPECT(getdelim(&line, &size, ',', file) == 2 && strcmp(line, "bc") == 0);
    size_t *volatile no_size = NULL;
    errno = 0;
    EXPECT(getline(&line, no_size, file) == -1 && errno == EINVAL);
    fclose(file);
    family->free(line);
    return 0;
}

TEST(reading_lines)
{
    if (!stint_malloc_is_overridden())
        skip_because("malloc is not stint's");
    run_everywhere(check_lines);
}

static int check_paths(const struct family *family)
{
    char *path = realpath("/proc/../usr/./", NULL);
    EXPECT(path != NULL && strcmp(path, "/usr") == 0);
    family->free(path);
    char buffer[PATH_MAX];
    EXPECT(realpath("/usr//", buffer) == buffer && strcmp(buffer, "/usr") == 0);
    path = canonicalize_file_name("/usr/..");
    EXPECT(path != NULL && strcmp(path, "/") == 0);
    family->free(path);
    errno = 0;
    EXPECT(realpath("/no such file", NULL) == NULL && errno == ENOENT);
    char *volatile nothing = NULL;
    errno = 0;
    EXPECT(realpath(nothing, NULL) == NULL && errno == EINVAL);
    return 0;
}

TEST(resolving_paths)
{
    if (!stint_malloc_is_overridden())
        skip_because("malloc is not stint's");
    run_everywhere(check_paths);
}

/* How much each of libc's functions charges: the block that it hands out is the task's, rolled back with it. */
static int use_libc(void *arg, void **value)
{
    char *text = NULL;
    size_t size = 0;
    (void)value;
    for (int i = 0; i < 1000; i++) {
        if (keep(strdup("0123456789abcdef")) == NULL || keep(strndup("0123456789abcdef", 16)) == NULL ||
            asprintf(&text, "%s", "0123456789abcdef") != 16 || print_list(&text, "0123456789abcdef") != 16)
            return 2;
    }
    FILE *file = arg;
    text = NULL;
    if (getline(&text, &size, file) != 3 || keep(realpath("/usr", NULL)) == NULL)
        return 3;
    return 1;
}

TEST(what_libc_hands_out_is_held_by_the_task)
{
    if (!stint_malloc_is_overridden())
        skip_because("malloc is not stint's");
    FILE *file = file_of("ab\n", 3);
    assert_int_equal(getc(file), 'a'); /* its buffer, which is libc's own */
    rewind(file);
    stint_outcome outcome = run_task(use_libc, file, NULL);
    fclose(file);
    assert_outcome(outcome, STINT_ERROR, STINT_REASON_FAILED, 1);
    assert_int_equal(outcome.usage.allocated, 4 * 1000 * 32 + 2 * 128 + 16); /* libc makes a line first */
    assert_in_range(outcome.usage.peak, 4 * 1000 * 32, 4 * 1000 * 32 + 64 * KIB);
}

TEST_MAIN()
