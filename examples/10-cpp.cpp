/* SPDX-License-Identifier: MIT
 *
 * In C++ a task is a lambda, its future holds a value, and an interrupt runs destructors. It prints:
 *
 *     3 words
 *     closed
 *     memory-limit
 *     no number in it */
#include <cstdio>
#include <stdexcept>
#include <stint/stint.hpp>
#include <string>
#include <vector>

struct Connection {
    ~Connection()
    {
        std::puts("closed");
    }
};

static std::vector<std::string> split(const std::string &text)
{
    std::vector<std::string> words(1);
    for (char c : text) {
        if (c == ' ')
            words.emplace_back();
        else
            words.back().push_back(c);
    }
    return words;
}

int main()
{
    stint::Pool pool;
    std::string text = "a few words";

    auto words = pool.submit([&] { return split(text); }, stint::Options().memory(1 << 20));
    std::printf("%zu words\n", words.get().size());

    auto endless = pool.submit(
        [] {
            Connection connection; // its destructor runs before the memory is taken back
            std::vector<std::string> list;
            for (;;)
                list.emplace_back(100, 'x');
        },
        stint::Options().memory(16 << 20));
    auto wrong = pool.submit([] { throw std::runtime_error("no number in it"); });
    for (stint::Future<> *future : { &endless, &wrong }) {
        try {
            future->get();
        } catch (const stint::error &error) {
            std::printf("%s\n", error.what());
        }
    }
}
