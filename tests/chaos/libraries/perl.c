/* SPDX-License-Identifier: MIT
 *
 * Perl: a fresh interpreter, a small script. A refused allocation ends the process, so never STINT_FAIL. */
#include "library.h"

#include <stdio.h>
/* Perl has macros and functions of many names. */
#include <EXTERN.h>
#include <perl.h>

static char script[] = "my @parts = map { sprintf('%05d:%s', $_ * $variant, $_ % 7) } 1 .. 40;\n"
                       "my %seen; $seen{$_ % 11} .= 'x' x ($_ % 5) for @parts;\n"
                       "my $text = join(',', sort { reverse($a) cmp reverse($b) } @parts, %seen);\n"
                       "$text =~ s/(\\d)(\\d)/$2$1/g;\n"
                       "$answer = substr($text, 0, 300);\n";

static int run(unsigned variant, uint64_t *sum)
{
    static char name[] = "perl", option[] = "-e", nothing[] = "0";
    char *arguments[] = { name, option, nothing, NULL };
    PerlInterpreter *my_perl = perl_alloc();
    if (my_perl == NULL)
        return -1;
    PERL_SET_CONTEXT(my_perl);
    perl_construct(my_perl);
    PL_exit_flags |= PERL_EXIT_DESTRUCT_END;
    PL_perl_destruct_level = 1;
    int error = perl_parse(my_perl, NULL, 3, arguments, NULL);
    if (error == 0) {
        sv_setuv(get_sv("variant", GV_ADD), variant + 1);
        eval_pv("srand(1);", FALSE);
        eval_pv(script, FALSE);
        chaos_add_text(sum, SvPV_nolen(get_sv("answer", GV_ADD)));
    }
    perl_destruct(my_perl);
    perl_free(my_perl);
    return error;
}

static void prepare(void)
{
    static char name[] = "perl";
    static char *arguments[] = { name, NULL }, *nothing[] = { NULL };
    char **vector = arguments, **surroundings = nothing;
    int count = 1;
    setenv("PERL_HASH_SEED", "0", 1);
    setenv("PERL_PERTURB_KEYS", "0", 1);
    PERL_SYS_INIT3(&count, &vector, &surroundings);
}

static const char *version(void)
{
    return PERL_VERSION_STRING;
}

const struct chaos_library CHAOS_ONE = {
    .name = "Perl",
    .modes = CHAOS_LEAVING,
    .prepare = prepare,
    .run = run,
    .modules = "libperl",
    .version = version,
};
