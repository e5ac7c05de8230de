/* SPDX-License-Identifier: MIT
 *
 * The module that module.c loads: C++ with all that needs the runtime. */
#include <exception>
#include <new>
#include <stdexcept>
#include <string>

#include <stint/interrupt.h>

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

extern "C" void throw_one()
{
    throw 1;
}

/* -1: something was thrown. */
extern "C" int catch_from(int (*call)())
{
    try {
        return call();
    } catch (...) {
        return -1;
    }
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

static int caught;

struct Allocates {
    void (*before)() = nullptr;
    ~Allocates()
    {
        if (before != nullptr)
            before();
        for (int i = 0; i < 100; i++) {
            ::operator delete(::operator new(1000));
            stint_checkpoint();
        }
    }
};

extern "C" void throw_past_allocations(void (*before)())
{
    try {
        Allocates allocates{ before };
        throw 1;
    } catch (int) {
        caught++;
    }
}

extern "C" int how_many_caught()
{
    return caught;
}

extern "C" int how_many_uncaught()
{
    return std::uncaught_exceptions();
}

extern "C" void allocate_in_catch(void (*before)())
{
    try {
        throw 1;
    } catch (int) {
        before();
        Allocates allocates;
    }
    stint_checkpoint();
}

extern "C" int is_in_catch()
{
    return std::current_exception() != nullptr;
}

struct Made {
    int value = 0;
    explicit Made(void (*before)())
    {
        if (before != nullptr)
            before();
        {
            Allocates allocates;
        }
        value = 42;
    }
};

static int make(void (*before)())
{
    static Made made(before);
    return made.value;
}

extern "C" void allocate_in_initialiser(void (*before)())
{
    sink = reinterpret_cast<void *>(static_cast<long>(make(before)));
    stint_checkpoint();
}

extern "C" int initialised()
{
    return make(nullptr);
}
