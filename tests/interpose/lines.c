/* SPDX-License-Identifier: MIT
 *
 * getline and getdelim give the lines that were written, whatever they are long, however the stream is buffered, in a
 * task and outside. */
#include "support.h"

#define LINES 400
#define LONGEST 20000

static char *text;
static size_t ends[LINES]; /* of each line, in the text */

static int write_lines(void **state)
{
    (void)state;
    uint64_t random = 1;
    size_t length = 0;
    text = malloc(LINES * (LONGEST + 1));
    for (size_t i = 0; i < LINES; i++) {
        size_t size = i % 8 == 0 ? 0 : random_below(&random, i % 3 == 0 ? LONGEST : 200);
        for (size_t j = 0; j < size; j++)
            text[length++] = (char)(random_below(&random, 245) + 11); /* no newline, but zeros of no kind either */
        if (i + 1 < LINES)
            text[length++] = '\n';
        ends[i] = length;
    }
    return text != NULL ? 0 : -1;
}

static int free_lines(void **state)
{
    (void)state;
    free(text);
    return 0;
}

struct reading {
    FILE *file;
    size_t lines; /* that were as written, one after the other */
};

static int read_lines(void *arg, void **value)
{
    (void)value;
    struct reading *reading = arg;
    char *line = NULL;
    size_t size = 0;
    size_t begin = 0;
    for (size_t i = 0; i < LINES; i++) {
        size_t length = ends[i] - begin;
        ssize_t got = getline(&line, &size, reading->file);
        if (length == 0 ? got != -1 : got != (ssize_t)length)
            break;
        if (length > 0 && (size <= length || memcmp(line, text + begin, length) != 0 || line[length] != '\0'))
            break;
        begin = ends[i];
        reading->lines++;
    }
    if (getline(&line, &size, reading->file) != -1 || !feof(reading->file))
        reading->lines = 0;
    free(line);
    return 0;
}

static size_t lines_of(int mode, size_t buffer, bool in_task)
{
    char path[] = "/tmp/stint-lines-XXXXXX";
    int descriptor = mkstemp(path);
    struct reading reading = { .file = fdopen(descriptor, "w+") };
    assert_non_null(reading.file);
    unlink(path);
    assert_int_equal(fwrite(text, 1, ends[LINES - 1], reading.file), ends[LINES - 1]);
    rewind(reading.file);
    assert_int_equal(setvbuf(reading.file, NULL, mode, buffer), 0);
    if (in_task)
        assert_ok(run_task(read_lines, &reading, NULL));
    else
        read_lines(&reading, NULL);
    fclose(reading.file);
    return reading.lines;
}

TEST(lines_are_read_as_they_were_written)
{
    for (int in_task = 0; in_task <= 1; in_task++) {
        assert_int_equal(lines_of(_IOFBF, 0, in_task), LINES);
        assert_int_equal(lines_of(_IOFBF, 7, in_task), LINES);
        assert_int_equal(lines_of(_IOFBF, 64 * KIB, in_task), LINES);
        assert_int_equal(lines_of(_IONBF, 0, in_task), LINES);
    }
}

static int read_up_to(void *arg, void **value)
{
    (void)value;
    char *line = NULL;
    size_t size = 0;
    ssize_t length = getdelim(&line, &size, 'z', arg);
    int error = length == 4 && memcmp(line, "a\nbz", 5) == 0 ? 0 : 1;
    length = getdelim(&line, &size, '\xe9', arg);
    error += length == 2 && memcmp(line, "c\xe9", 3) == 0 ? 0 : 2;
    length = getdelim(&line, &size, 'z', arg);
    error += length == 1 && line[0] == 'd' ? 0 : 4;
    free(line);
    return error;
}

TEST(any_byte_can_be_the_delimiter)
{
    static char bytes[] = "a\nbzc\xe9"
                          "d";
    for (int in_task = 0; in_task <= 1; in_task++) {
        FILE *file = fmemopen(bytes, sizeof bytes - 1, "r");
        assert_non_null(file);
        if (in_task)
            assert_ok(run_task(read_up_to, file, NULL));
        else
            assert_int_equal(read_up_to(file, NULL), 0);
        fclose(file);
    }
}

TEST_MAIN_WITH(write_lines, free_lines)
