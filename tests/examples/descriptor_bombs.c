/* SPDX-License-Identifier: MIT
 *
 * Endurance: thousands of tasks that are stopped at random points in or behind a call of a library that opens a
 * descriptor. They own theirs, so the process has as many open after them as before. The argument is the number of
 * tasks for each way to open one. */
#include <dirent.h>
#include <fcntl.h>
#include <libxml/parser.h>
#include <libxml/xmlreader.h>
#include <zlib.h>

#include "support.h"

#define DOCUMENT "document.xml"
#define LARGEST_LIMIT 30000

static unsigned long bombs;

static void open_stream(void)
{
    keep(fopen(DOCUMENT, "r"));
}

static void open_descriptor(void)
{
    open(DOCUMENT, O_RDONLY);
}

static void open_folder(void)
{
    keep(opendir("."));
}

static void open_compressed(void)
{
    gzFile file = gzopen(DOCUMENT, "rb");
    if (file != NULL)
        gzgetc(file);
}

static void open_reader(void)
{
    xmlTextReaderPtr reader = xmlReaderForFile(DOCUMENT, NULL, XML_PARSE_NOERROR);
    while (reader != NULL && xmlTextReaderRead(reader) == 1)
        continue;
}

static void read_document(void)
{
    keep(xmlReadFile(DOCUMENT, NULL, XML_PARSE_NOERROR));
}

static void run_program(void)
{
    keep(popen("exit 0", "r"));
}

struct way {
    const char *name;
    void (*open)(void);
};

static const struct way ways[] = {
    { "fopen", open_stream },      { "open", open_descriptor },         { "opendir", open_folder },
    { "gzopen", open_compressed }, { "xmlReaderForFile", open_reader }, { "xmlReadFile", read_document },
    { "popen", run_program },
};

static int open_and_allocate(void *arg, void **value)
{
    const struct way *way = arg;
    (void)value;
    way->open();
    for (;;) {
        void *block = malloc(1000);
        if (block == NULL)
            return ENOMEM;
        keep(block);
    }
}

static int open_descriptors(void)
{
    int count = 0;
    for (int i = 0; i < 1024; i++)
        count += fcntl(i, F_GETFD) >= 0;
    return count;
}

/* Who waits for a program has its pipe for a while. */
static int settled(int before)
{
    const struct timespec nap = { .tv_nsec = 1000000 };
    int now = open_descriptors();
    for (int i = 0; i < 5000 && now > before; i++) {
        nanosleep(&nap, NULL);
        now = open_descriptors();
    }
    return now;
}

static void run(const struct way *way, uint64_t *random)
{
    int before = open_descriptors();
    for (unsigned long i = 0; i < bombs; i++) {
        stint_options options = STINT_OPTIONS_INIT;
        options.owns_descriptors = true;
        options.on_interrupt = random_below(random, 3) == 0 ? STINT_UNWIND : STINT_JUMP;
        options.budget.allocation = 16 + random_below(random, LARGEST_LIMIT);
        stint_outcome outcome = run_task(open_and_allocate, (void *)(uintptr_t)way, &options);
        assert_limit_passed(outcome);
        if (i % 100 == 0 && settled(before) > before)
            fail_msg("%s: %d descriptors more after %lu tasks", way->name, open_descriptors() - before, i);
    }
    assert_int_equal(settled(before), before);
}

TEST(as_many_are_open_after_all_of_them_as_before)
{
    uint64_t random = 3;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        run(&ways[i], &random);
}

static int setup(void **state)
{
    (void)state;
    char folder[] = "/tmp/stint-descriptors-XXXXXX";
    if (!mkdtemp(folder) || chdir(folder))
        return -1;
    FILE *file = fopen(DOCUMENT, "w");
    fputs("<a><b>text</b><b/></a>\n", file);
    xmlInitParser();
    return fclose(file);
}

static int teardown(void **state)
{
    (void)state;
    char folder[64];
    unlink(DOCUMENT);
    return getcwd(folder, sizeof folder) && rmdir(folder) == 0 ? 0 : -1;
}

int main(int argc, char **argv)
{
    bombs = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
    if (bombs == 0) {
        fprintf(stderr, "usage: %s NUMBER\n", argv[0]);
        return 2;
    }
    return run_all_tests(setup, teardown);
}
