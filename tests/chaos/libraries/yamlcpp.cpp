// SPDX-License-Identifier: MIT
//
// yaml-cpp: a text is read into nodes, changed and written.
#include "library.h"

#include <new>
#include <string>
#include <yaml-cpp/yaml.h>

namespace
{

int run(unsigned variant, uint64_t *sum)
{
    try {
        YAML::Node node = YAML::Load("a: [1, 2.5, ~]\nb: {c: text, d: &x [1]}\ne: *x\n");
        for (unsigned i = 0; i < 3; i++)
            node["a"].push_back(i * variant);
        YAML::Emitter emitter;
        emitter << node;
        chaos_add(sum, emitter.c_str(), emitter.size());
        return emitter.good() ? 0 : -1;
    } catch (const std::bad_alloc &) {
        return -1;
    }
}

} // namespace

extern "C" const chaos_library CHAOS_ONE = { "yaml-cpp", CHAOS_ANY_MODE, false,         nullptr, run,
                                             nullptr,    nullptr,        "libyaml-cpp", nullptr };
