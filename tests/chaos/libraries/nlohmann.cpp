// SPDX-License-Identifier: MIT
//
// nlohmann-json: header-only, so it is the program's own code. A text is read, changed, packed and written.
#include "library.h"

#include <new>
#include <nlohmann/json.hpp>
#include <string>

namespace
{

int run(unsigned variant, uint64_t *sum)
{
    try {
        nlohmann::json json =
            nlohmann::json::parse(R"({"list": [1, 2.5, null, "text \u00e9"], "inner": {"a": [true]}})");
        for (unsigned i = 0; i < 8; i++)
            json["list"].push_back({ { "id", i * variant }, { "name", std::string(i, 'x') } });
        const nlohmann::json copy = nlohmann::json::from_msgpack(nlohmann::json::to_msgpack(json));
        const std::string written = copy.dump(1);
        chaos_add(sum, written.data(), written.size());
        return copy == json ? 0 : -1;
    } catch (const std::bad_alloc &) {
        return -1;
    }
}

const char *version()
{
    static const std::string text = std::to_string(NLOHMANN_JSON_VERSION_MAJOR) + "." +
                                    std::to_string(NLOHMANN_JSON_VERSION_MINOR) + "." +
                                    std::to_string(NLOHMANN_JSON_VERSION_PATCH);
    return text.c_str();
}

} // namespace

extern "C" const chaos_library CHAOS_ONE = { "nlohmann-json", CHAOS_ANY_MODE, true,    nullptr, run,
                                             nullptr,         nullptr,        nullptr, version };
