// SPDX-License-Identifier: MIT
//
// Containers of the C++ library: their templates are the program's own code, above the C++ runtime.
#include "library.h"

#include <algorithm>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <new>
#include <set>
#include <sstream>
#include <string>
#include <unordered_map>
#include <vector>

namespace
{

void fill(unsigned variant, uint64_t *sum)
{
    std::map<std::string, std::vector<unsigned>> tree;
    std::unordered_map<unsigned, std::shared_ptr<std::string>> table;
    std::deque<std::list<unsigned>> queue;
    std::set<std::string> names;
    for (unsigned i = 0; i < 60; i++) {
        const std::string name = "a name that is not short " + std::to_string(i * 7919 % (31 + variant));
        tree[name].push_back(i);
        table[i * 31] = std::make_shared<std::string>(name);
        queue.emplace_back(3, i);
        names.insert(*table[i * 31]);
    }
    std::vector<std::string> sorted(names.begin(), names.end());
    std::sort(sorted.begin(), sorted.end(), std::greater<std::string>());
    for (const std::string &name : sorted)
        chaos_add_number(sum, name.size() * 100 + tree[name].size());
    std::ostringstream stream;
    stream << queue.size() << ' ' << queue.back().back() << ' ' << 0.5 * variant;
    chaos_add_text(sum, stream.str().c_str());
}

int run(unsigned variant, uint64_t *sum)
{
    try {
        fill(variant, sum);
        return 0;
    } catch (const std::bad_alloc &) {
        return -1;
    }
}

} // namespace

extern "C" const chaos_library CHAOS_ONE = { "C++ containers", CHAOS_ANY_MODE, true,    nullptr, run,
                                             nullptr,          nullptr,        nullptr, nullptr };
