// SPDX-License-Identifier: MIT
//
// Boost: its headers are the program's own code; archives are of its library.
#include "library.h"

#include <boost/archive/text_iarchive.hpp>
#include <boost/archive/text_oarchive.hpp>
#include <boost/container/flat_map.hpp>
#include <boost/lexical_cast.hpp>
#include <boost/property_tree/json_parser.hpp>
#include <boost/property_tree/ptree.hpp>
#include <boost/serialization/map.hpp>
#include <boost/serialization/string.hpp>
#include <boost/version.hpp>
#include <exception>
#include <map>
#include <sstream>
#include <string>

namespace
{

void copy_by_archive(unsigned variant, uint64_t *sum)
{
    std::map<std::string, unsigned> map, read;
    for (unsigned i = 0; i < 10; i++)
        map["a key that is not short " + std::to_string(i)] = i * variant;
    std::stringstream stream;
    {
        boost::archive::text_oarchive archive(stream);
        const auto &whole = map;
        archive << whole;
    }
    boost::archive::text_iarchive archive(stream);
    archive >> read;
    chaos_add_number(sum, read == map ? read.size() : 0);
}

void use_headers(unsigned variant, uint64_t *sum)
{
    boost::container::flat_map<std::string, std::string> numbers;
    for (unsigned i = 1; i < 12; i++)
        numbers["number " + std::to_string(i * 7 % 12)] = boost::lexical_cast<std::string>(i * variant / 8.0);
    for (const auto &entry : numbers)
        chaos_add_text(sum, entry.second.c_str());
    boost::property_tree::ptree tree;
    std::istringstream text(R"({"a": {"b": [1, 2.5], "c": "text"}})");
    boost::property_tree::read_json(text, tree);
    chaos_add_text(sum, tree.get<std::string>("a.c").c_str());
}

int run(unsigned variant, uint64_t *sum)
{
    try {
        copy_by_archive(variant, sum);
        use_headers(variant, sum);
        return 0;
    } catch (const std::exception &) { // a stream that has no memory is an error of the archive
        return -1;
    }
}

const char *version()
{
    return BOOST_LIB_VERSION;
}

} // namespace

extern "C" const chaos_library CHAOS_ONE = { "Boost", CHAOS_ANY_MODE,           false,  nullptr, run, nullptr,
                                             nullptr, "libboost_serialization", version };
