// SPDX-License-Identifier: MIT
//
// std::regex: its templates are the program's own code, above the C++ runtime, in whose midst nothing is left.
#include "library.h"

#include <new>
#include <regex>
#include <string>

namespace
{

const char *const patterns[CHAOS_VARIANTS] = { "(\\w+)@(\\w+)",  "(\\d+)\\.(\\d+)", "[aeiou]\\w+",
                                               "(\\w+) (\\w+);", "([^,;]+)[,;]",    "(a|b|ab)*c" };

int run(unsigned variant, uint64_t *sum)
{
    try {
        const std::string text = "abababc, some user@host.com asked 10.0.0.17; the AeroplanE went to you@there.com";
        const std::regex pattern(patterns[variant]);
        for (std::sregex_iterator found(text.begin(), text.end(), pattern), end; found != end; ++found)
            chaos_add_number(sum, static_cast<uint64_t>(found->position()) * 1000 + found->str().size());
        return 0;
    } catch (const std::bad_alloc &) {
        return -1;
    } catch (const std::regex_error &) { // which an allocation that was refused may become
        return -1;
    }
}

} // namespace

extern "C" const chaos_library CHAOS_ONE = { "std::regex", CHAOS_ANY_MODE, true,    nullptr, run,
                                             nullptr,      nullptr,        nullptr, nullptr };
