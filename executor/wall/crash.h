/* SPDX-License-Identifier: MIT
 *
 * What a child takes down as it crashes (crash.c), and what the program makes of it (crash_report.c). The child may be
 * in any state by then, and may lie: it only writes numbers into its area, and the program copies them before it looks
 * at them.
 *
 * Addresses are the child's. Those in modules that the program has loaded at the same place, as a fork has, are the
 * program's too. Of all others the record names the files, but only files that the template has named, which has never
 * seen an input, are opened by the program for their symbols. */
#ifndef STI_EXECUTOR_WALL_CRASH_H
#define STI_EXECUTOR_WALL_CRASH_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stint/observe.h>
#include <stint/wall.h>

#define STI_CRASH_DEPTH 64
#define STI_CRASH_MODULES 16
#define STI_CRASH_PATH_SIZE 128

/* A signal by which the program asks a child, just before it kills it, to take down where it is: the record is then as
 * of a crash with this signal, and the child ends. */
#define STI_CRASH_ASK (SIGRTMAX - 4)

/* Lies in the area. Zeros: nothing was taken down. */
struct sti_crash_record {
    uint32_t taken; /* written last */
    int32_t signal;
    int32_t code;
    uint32_t length;
    uint64_t address;
    uint64_t instruction;
    uint64_t allocated; /* by the task, in bytes, up to there; and the peak of what it held */
    uint64_t peak;
    uint64_t frames[STI_CRASH_DEPTH]; /* instructions, innermost first: of the fault, then return addresses */

    /* The modules that the frames lie in, for those that the program has not loaded itself. */
    uint32_t module_count;
    struct {
        uint64_t begin;
        uint64_t end;
        char path[STI_CRASH_PATH_SIZE]; /* its end, where it is longer */
    } modules[STI_CRASH_MODULES];
};

/* In a child, before its first task: have faults, aborts and the question taken down in the record, on a stack of their
 * own, before they end the process as they would have. Of faults that end a task's use of its stack, and of those that
 * the task's own handlers take, nothing is taken down. On other threads than the calling one the stack is the thread's.
 *
 * With NULL, in the template, after its setup: all is made ready for the children, to which it costs nothing then, and
 * the template itself ends by its faults as it would have. */
void sti_crash_watch(struct sti_crash_record *record);

/* The modules of the template, for the symbols of its children's addresses. Has no pointers: to be sent as it is. */
#define STI_CRASH_KNOWN 64
#define STI_CRASH_KNOWN_PATH_SIZE 256
struct sti_crash_modules {
    size_t count;
    struct {
        uint64_t begin;
        uint64_t end;
        char path[STI_CRASH_KNOWN_PATH_SIZE]; /* a module whose path is longer is left out */
    } list[STI_CRASH_KNOWN];
};

/* In the template, when its setup has returned, before the sandbox closes. The only thread. */
void sti_crash_list_modules(struct sti_crash_modules *modules);

#endif
