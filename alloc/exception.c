/* SPDX-License-Identifier: MIT
 *
 * Reading exceptions of libstdc++; see exception.h.
 *
 * In front of the unwinder's header lies libstdc++'s, with the type; behind it the object. One that was rethrown from a
 * std::exception_ptr has a header of its own that points to the first one's object. Whether the type is derived from
 * std::exception is asked of std::exception's type_info, by the virtual function that a catch block would ask: the
 * fifth. The layouts are those of the Itanium C++ ABI and of gcc since version 4. */
#include "exception.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unwind.h>

#include "cxx.h"

#define PRIMARY UINT64_C(0x474e5543432b2b00)   /* "GNUCC++" and 0 */
#define DEPENDENT UINT64_C(0x474e5543432b2b01) /* and 1 */

struct type_info {
    const void *const *functions;
    const char *name; /* mangled; an asterisk in front of it says that its address is compared */
};

/* What lies in front of the unwinder's header. */
struct header {
    const void *type_or_object; /* of a dependent one, the object */
    void *destructor;
    void *unexpected;
    void *terminate;
    void *next;
    int handlers;
    int switch_value;
    const void *action;
    const void *table;
    uintptr_t landing_pad;
    void *adjusted;
};

struct whole {
    struct header header;
    struct _Unwind_Exception unwound;
};

enum { IS_CAUGHT_BY = 4, WHAT = 2 };

typedef bool is_caught_fn(const struct type_info *handler, const struct type_info *thrown, void **object,
                          unsigned outer);
typedef const char *what_fn(const void *object);

/* As in cxx.c: for programs that bring their own runtime. */
extern const struct type_info linked_exception_type __asm__("_ZTISt9exception") __attribute__((weak));

struct thrown_object {
    const struct type_info *type; /* NULL: not libstdc++'s */
    void *object;
};

static struct thrown_object object_of(const struct _Unwind_Exception *exception)
{
    const struct whole *whole = (const struct whole *)((const char *)exception - offsetof(struct whole, unwound));
    struct thrown_object thrown = { .type = NULL };
    if (exception->exception_class == PRIMARY) {
        thrown.type = whole->header.type_or_object;
        thrown.object = (void *)(uintptr_t)(exception + 1);
    } else if (exception->exception_class == DEPENDENT) {
        const struct whole *primary = (const struct whole *)whole->header.type_or_object - 1;
        thrown.type = primary->header.type_or_object;
        thrown.object = (void *)(uintptr_t)whole->header.type_or_object;
    }
    return thrown;
}

static const char *what_of(struct thrown_object thrown)
{
    const struct type_info *handler = &linked_exception_type;
    if (handler == NULL)
        handler = sti_cxx_function("_ZTISt9exception", thrown.type);
    if (handler == NULL)
        return NULL;
    is_caught_fn *is_caught;
    memcpy(&is_caught, &handler->functions[IS_CAUGHT_BY], sizeof is_caught);
    if (!is_caught(handler, thrown.type, &thrown.object, 1))
        return NULL;
    what_fn *what;
    memcpy(&what, &(*(const void *const *const *)thrown.object)[WHAT], sizeof what);
    return what(thrown.object);
}

int sti_exception_describe(const struct _Unwind_Exception *exception, char *text, size_t size)
{
    struct thrown_object thrown = object_of(exception);
    const char *name = thrown.type != NULL ? thrown.type->name + (thrown.type->name[0] == '*') : "";
    if (text != NULL) {
        const char *what = thrown.type != NULL ? what_of(thrown) : NULL;
        if (what != NULL)
            snprintf(text, size, "%s", what);
        else if (thrown.type != NULL)
            snprintf(text, size, "an exception of type %s", name);
        else
            snprintf(text, size, "an exception that is not of this C++ runtime");
    }
    bool no_memory = strcmp(name, "St9bad_alloc") == 0 || strcmp(name, "St20bad_array_new_length") == 0;
    return no_memory ? ENOMEM : -1;
}
