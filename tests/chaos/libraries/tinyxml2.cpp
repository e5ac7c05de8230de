// SPDX-License-Identifier: MIT
//
// TinyXML-2: a document is read and written. It looks at no allocation, so never STINT_FAIL.
#include "library.h"

#include <new>
#include <string>
#include <tinyxml2.h>

namespace
{

int run(unsigned variant, uint64_t *sum)
{
    std::string text = "<r>";
    for (unsigned i = 0; i < 20; i++)
        text += "<i n='" + std::to_string(i * variant) + "'>text &amp; <b/></i>";
    text += "</r>";
    tinyxml2::XMLDocument document;
    if (document.Parse(text.c_str(), text.size()) != tinyxml2::XML_SUCCESS)
        return -1;
    tinyxml2::XMLPrinter printer;
    document.Print(&printer);
    chaos_add_text(sum, printer.CStr());
    return 0;
}

} // namespace

extern "C" const chaos_library CHAOS_ONE = { "TinyXML-2", CHAOS_LEAVING, true,          nullptr, run,
                                             nullptr,     nullptr,       "libtinyxml2", nullptr };
