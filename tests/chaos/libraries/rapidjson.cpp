// SPDX-License-Identifier: MIT
//
// RapidJSON: header-only, so it is the program's own code. It looks at no allocation, so never STINT_FAIL.
#include "library.h"

#include <rapidjson/document.h>
#include <rapidjson/prettywriter.h>
#include <rapidjson/stringbuffer.h>

namespace
{

int run(unsigned variant, uint64_t *sum)
{
    rapidjson::Document document;
    document.Parse(R"({"list": [1, 2.5, null, "text \u00e9"], "inner": {"a": [true, false]}})");
    if (document.HasParseError())
        return -1;
    auto &memory = document.GetAllocator();
    for (unsigned i = 0; i < 30; i++) {
        rapidjson::Value item(rapidjson::kObjectType);
        item.AddMember("id", i * variant, memory);
        item.AddMember("part", i / 8.0, memory);
        document["list"].PushBack(item, memory);
    }
    rapidjson::StringBuffer buffer;
    rapidjson::PrettyWriter<rapidjson::StringBuffer> writer(buffer);
    document.Accept(writer);
    chaos_add(sum, buffer.GetString(), buffer.GetSize());
    return 0;
}

const char *version()
{
    return RAPIDJSON_VERSION_STRING;
}

} // namespace

extern "C" const chaos_library CHAOS_ONE = { "RapidJSON", CHAOS_LEAVING, true,    nullptr, run,
                                             nullptr,     nullptr,       nullptr, version };
