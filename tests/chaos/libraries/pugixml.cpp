// SPDX-License-Identifier: MIT
//
// pugixml: a document is read, searched and written.
#include "library.h"

#include <new>
#include <pugixml.hpp>
#include <sstream>
#include <string>

namespace
{

struct summing : pugi::xml_writer {
    explicit summing(uint64_t *into) : sum(into)
    {
    }
    void write(const void *bytes, size_t size) override
    {
        chaos_add(sum, bytes, size);
    }
    uint64_t *sum;
};

int run(unsigned variant, uint64_t *sum)
{
    try {
        std::string text = "<r>";
        for (unsigned i = 0; i < 20; i++)
            text += "<i n='" + std::to_string(i * variant) + "'>text &amp; <b/></i>";
        text += "</r>";
        pugi::xml_document document;
        if (!document.load_buffer(text.data(), text.size()))
            return -1;
        for (const pugi::xpath_node &found : document.select_nodes("/r/i[position() mod 3 = 1]/@n"))
            chaos_add_text(sum, found.attribute().value());
        summing writer(sum);
        document.save(writer);
        return 0;
    } catch (const std::bad_alloc &) {
        return -1;
    }
}

const char *version()
{
    static const std::string text =
        std::to_string(PUGIXML_VERSION / 1000) + "." + std::to_string(PUGIXML_VERSION % 1000 / 10);
    return text.c_str();
}

} // namespace

extern "C" const chaos_library CHAOS_ONE = { "pugixml", CHAOS_ANY_MODE, true,         nullptr, run,
                                             nullptr,   nullptr,        "libpugixml", version };
