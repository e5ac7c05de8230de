// SPDX-License-Identifier: MIT
//
// re2: a pattern is compiled and searched for; its automaton grows as it matches, under locks.
#include "library.h"

#include <new>
#include <re2/re2.h>
#include <string>

namespace
{

const char *const patterns[CHAOS_VARIANTS] = { "(\\w+)@(\\w+)",  "(\\d+)\\.(\\d+)", "(?i)([aeiou])\\w+",
                                               "(\\w+) (\\w+);", "([^,;]+)[,;]",    "(a|b|ab)*c" };
const char text[] = "abababc, some user@host.com asked 10.0.0.17; the the AeroplanE went to you@there.com; and on";

int run(unsigned variant, uint64_t *sum)
{
    try {
        const RE2 pattern(patterns[variant]);
        re2::StringPiece rest(text);
        std::string found;
        while (RE2::FindAndConsume(&rest, pattern, &found)) {
            chaos_add(sum, found.data(), found.size());
            stint_checkpoint();
        }
        return pattern.ok() ? 0 : -1;
    } catch (const std::bad_alloc &) {
        return -1;
    }
}

} // namespace

extern "C" const chaos_library CHAOS_ONE = { "re2",   CHAOS_ANY_MODE, false,    nullptr, run,
                                             nullptr, nullptr,        "libre2", nullptr };
