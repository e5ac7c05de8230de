// SPDX-License-Identifier: MIT
//
// snappy: some text is packed and unpacked.
#include "library.h"

#include <new>
#include <snappy.h>
#include <string>

namespace
{

int run(unsigned variant, uint64_t *sum)
{
    try {
        std::string text, packed, read;
        for (size_t i = 0; i < 2000; i++)
            text += static_cast<char>('a' + i * i / 7 % (3 + variant));
        snappy::Compress(text.data(), text.size(), &packed);
        if (!snappy::Uncompress(packed.data(), packed.size(), &read))
            return -1;
        chaos_add(sum, read.data(), read.size());
        return 0;
    } catch (const std::bad_alloc &) {
        return -1;
    }
}

} // namespace

extern "C" const chaos_library CHAOS_ONE = { "snappy", CHAOS_ANY_MODE, true,        nullptr, run,
                                             nullptr,  nullptr,        "libsnappy", nullptr };
