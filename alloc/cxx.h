/* SPDX-License-Identifier: MIT
 *
 * The C++ runtime of the process, if it has one: its functions, and each thread's record of exceptions. The library does
 * not link it. Any thread. */
#ifndef STI_ALLOC_CXX_H
#define STI_ALLOC_CXX_H

/* A thread's exceptions, as the Itanium C++ ABI lays them out. */
struct sti_cxx_exceptions {
    void *caught;      /* those whose catch blocks it is in, newest first */
    unsigned uncaught; /* how many are on their way to a catch block */
};

/* A function that the library overrides or needs; NULL where there is no runtime. Also when the runtime came with a module
 * that was loaded for itself (RTLD_LOCAL), as the plugins of a C program are. */
void *sti_cxx_function(const char *name);

/* Of the calling thread; NULL without a runtime. */
struct sti_cxx_exceptions *sti_cxx_exceptions(void);

/* How many of the calling thread's exceptions are on their way; 0 also while nobody has found the runtime yet. Cheap. */
unsigned sti_cxx_uncaught(void);

#endif
