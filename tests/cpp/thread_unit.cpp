/* SPDX-License-Identifier: MIT
 *
 * Variables of a thread's with constructors, which allocate: see thread_unit.h. NAME says which compilation it is; PART
 * which variables, as a variable that is alone is made in another way than several. */
#include "thread_unit.h"

#include <stint/stint.hpp>

#include <stdlib.h>

#define JOINED(a, b) a##_##b
#define JOIN(a, b) JOINED(a, b)

namespace
{

/* Where an interrupt is due in the first one. */
int *filled_table()
{
    int *table = nullptr;
    for (int i = 0; i < 20; i++) {
        free(table);
        table = static_cast<int *>(malloc(1000));
        __asm__ volatile("" : "+r"(table)); /* compilers leave out what nobody uses */
        if (table == nullptr)
            return nullptr;
    }
    *table = 42;
    return table;
}

struct codec {
    int *table;
    codec() : table(filled_table())
    {
    }
    ~codec()
    {
        free(table);
    }
};

[[maybe_unused]] void go_on(bool wanted)
{
    while (wanted)
        stint_checkpoint();
}

[[maybe_unused]] int content(const int *table)
{
    return table != nullptr ? *table : 0;
}

} // namespace

#if PART == 1
static thread_local codec alone;

int JOIN(NAME, alone)(bool goes_on)
{
    int value = 0;
    do {
        value = content(alone.table); /* each time it is asked whether it is there */
        stint_checkpoint();
    } while (goes_on);
    return value;
}
#elif PART == 2
static thread_local int *pointer = filled_table();

int JOIN(NAME, pointer)(bool goes_on)
{
    int value = content(pointer);
    go_on(goes_on);
    return value;
}
#elif PART == 3
static thread_local codec first;
thread_local codec JOIN(NAME, second);
thread_local int *JOIN(NAME, third) = filled_table();

int JOIN(NAME, one_of_many)(bool goes_on)
{
    int value = content(first.table);
    go_on(goes_on);
    return value;
}

int JOIN(NAME, exported)(bool goes_on)
{
    int value = content(JOIN(NAME, second).table) == 42 ? content(JOIN(NAME, third)) : 0;
    go_on(goes_on);
    return value;
}
#else
int JOIN(NAME, flag)(bool goes_on)
{
    static __thread bool is_made;
    static __thread int *table;
    if (!is_made) {
        is_made = true;
        table = filled_table();
    }
    int value = content(table);
    go_on(goes_on);
    return value;
}

first_use JOIN(NAME, alone), JOIN(NAME, pointer), JOIN(NAME, one_of_many), JOIN(NAME, exported);
extern const first_uses JOIN(NAME, uses);
const first_uses JOIN(NAME, uses) = {
    __FILE__, JOIN(NAME, alone), JOIN(NAME, pointer), JOIN(NAME, one_of_many), JOIN(NAME, exported), JOIN(NAME, flag)
};
#endif
