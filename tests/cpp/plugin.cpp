/* SPDX-License-Identifier: MIT
 *
 * The module that module.c loads: C++ with all that needs the runtime. */
#include <new>
#include <stdexcept>
#include <string>

static void *volatile sink;
static int destroyed;

struct Counts {
    ~Counts()
    {
        destroyed++;
    }
};

static std::string &name()
{
    static std::string made_once(100, 'x');
    return made_once;
}

/* 0 when everything works. */
extern "C" int use_runtime()
{
    try {
        if (name().size() == 100)
            throw std::runtime_error("thrown");
    } catch (std::exception &) {
        try {
            sink = ::operator new(size_t(1) << 60);
        } catch (std::bad_alloc &) {
            return 0;
        }
    }
    return 1;
}

/* Allocates until it is stopped. */
extern "C" void spend_in_frames()
{
    Counts outer;
    try {
        Counts inner;
        for (;;)
            sink = ::operator new(1000);
    } catch (...) {
        throw;
    }
}

extern "C" int how_many_destroyed()
{
    return destroyed;
}
