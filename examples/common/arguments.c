/* SPDX-License-Identifier: MIT
 *
 * Reading the arguments of options; see arguments.h. */
#include "arguments.h"
#include "text.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stint/stint.h>
#include <string.h>

bool arguments_bad(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "%s: ", program_invocation_short_name);
    vfprintf(stderr, format, arguments);
    fprintf(stderr, " (see %s --help)\n", program_invocation_short_name);
    va_end(arguments);
    return false;
}

/* getopt_long says little of what it found wrong, so the argument itself is looked at. */
static bool bad_option(const struct option *known, int kind, char **argv)
{
    const char *argument = argv[optind - 1];
    if (kind == ':')
        return arguments_bad("%s needs an argument", argument);
    if (optopt == 0)
        return arguments_bad("unknown option '%s'", argument);
    for (const struct option *option = known; option->name; option++) {
        if (option->val == optopt && option->has_arg == no_argument)
            return arguments_bad("--%s takes no argument", option->name);
    }
    return arguments_bad("unknown option '-%c'", optopt);
}

arguments_next arguments_read(const struct arguments *arguments, void *options, int argc, char **argv)
{
    opterr = 0;
    int option;
    while ((option = getopt_long(argc, argv, arguments->letters, arguments->known, NULL)) != -1) {
        if (option == 'h')
            return fputs(arguments->help, stdout), ARGUMENTS_DONE;
        if (option == 'V')
            return printf("%s %s\n", arguments->program, STINT_VERSION), ARGUMENTS_DONE;
        bool odd = option == ':' || option == '?';
        if (!(odd ? bad_option(arguments->known, option, argv) : arguments->read(options, option)))
            return ARGUMENTS_BAD;
    }
    return ARGUMENTS_RUN;
}

bool arguments_number(const char *option, const char *text, uint64_t least, uint64_t most, uint64_t *number)
{
    return (text_read_number(text, number) && *number >= least && *number <= most) ||
           arguments_bad("%s: '%s' is not a number from %" PRIu64 " to %" PRIu64, option, text, least, most);
}

bool arguments_count(const char *option, const char *text, unsigned most, unsigned *count)
{
    uint64_t number = 0;
    bool good = arguments_number(option, text, 1, most, &number);
    *count = (unsigned)number;
    return good;
}

bool arguments_size(const char *option, const char *text, size_t *size)
{
    return text_read_size(text, size) || arguments_bad("%s: '%s' is not a size, such as 64M or 1GiB", option, text);
}

bool arguments_duration(const char *option, const char *text, uint64_t *nanoseconds)
{
    return text_read_duration(text, nanoseconds) ||
           arguments_bad("%s: '%s' is not a duration, such as 500ms or 2s", option, text);
}

int arguments_complain(const char *about, int error)
{
    fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, about, strerror(error));
    return error;
}

bool arguments_name(const char *option, const char *text, const char **name)
{
    size_t length = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_");
    if (length == 0 || length > 64 || text[length])
        return arguments_bad("%s: '%s' is not a name of up to 64 letters, digits, - and _", option, text);
    *name = text;
    return true;
}

unsigned arguments_processors(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) ? 1 : (unsigned)CPU_COUNT(&set);
}
