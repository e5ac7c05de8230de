// SPDX-License-Identifier: MIT
//
// A program with operators new and delete of its own, for run.sh: they ask malloc, or with ARENA a room of their own.
// Allocates a thousand KiB.
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <new>

#if ARENA
static char room[1 << 22];
static std::size_t taken;

static void *make(std::size_t size)
{
    std::size_t begin = taken;
    taken += (size + 15) & ~static_cast<std::size_t>(15);
    return taken <= sizeof room ? room + begin : nullptr;
}

static void drop(void *)
{
}
#else
static void *make(std::size_t size)
{
    return std::malloc(size);
}

static void drop(void *block)
{
    std::free(block);
}
#endif

void *operator new(std::size_t size)
{
    void *block = make(size);
    if (block == nullptr)
        throw std::bad_alloc();
    return block;
}

void operator delete(void *block) noexcept
{
    drop(block);
}

void operator delete(void *block, std::size_t) noexcept
{
    drop(block);
}

char *blocks[1000];

int main()
{
    try {
        for (char *&block : blocks)
            block = new char[1024];
        std::puts("held");
    } catch (const std::bad_alloc &) {
        std::puts("refused");
    }
    return 0;
}
