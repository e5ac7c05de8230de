/* SPDX-License-Identifier: MIT
 *
 * The report of a task that did not end Ok: what is taken down, by which thread, and where it goes.
 * include/stint/observe.h says what it is for.
 *
 * A report is made when a task that asks for one is first measured, tripped or ends, and is filled on the task's thread
 * while the task lives (report_where.c, when it is tripped, waits and is delivered; report_heap.c, what its heaps hold,
 * and which callstacks hold it). Everything in it is addresses and numbers; what they are called is looked up when it
 * is written, in the module that writes profiles (report_write.c). When the task has ended, the report is its taker's,
 * and is never changed again; that of one that has ended Ok is freed. */
#ifndef STI_ALLOC_OBSERVE_REPORT_H
#define STI_ALLOC_OBSERVE_REPORT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stint/interrupt.h>
#include <stint/observe.h>
#include <stint/task.h>
#include <stint/wall.h>

#include "alloc/platform/tally.h"
#include "profile_write.h"

struct sti_heap;
struct sti_root;
struct sti_scope;
struct sti_registers;
struct sti_thread;

#define STI_REPORT_DEPTH 64 /* frames of a callstack */
#define STI_REPORT_POINTS 64
#define STI_REPORT_WAITS STI_DEFERRALS
#define STI_REPORT_CLASSES 72
#define STI_REPORT_LOOKS 64   /* at blocks of one size class, */
#define STI_REPORT_CONTENTS 4 /* kinds of contents of one size class, */
#define STI_REPORT_TEXT 24    /* bytes of a string among them */
#define STI_REPORT_LARGEST 8
#define STI_REPORT_ROOTS 16
#define STI_REPORT_HOLDERS 16
#define STI_REPORT_HOLDER_DEPTH 32
#define STI_REPORT_NAME 64
#define STI_REPORT_PATH 128
#define STI_REPORT_WHERE 16

/* The innermost first; each as a return address: the instruction before it was executed last. */
struct sti_report_stack {
    size_t length;
    bool is_cut; /* there are more, further out */
    uintptr_t frames[STI_REPORT_DEPTH];
};

/* What an interrupt had to wait for. */
struct sti_report_wait {
    stint_deferral rule;
    uintptr_t at; /* a lock, or a return address into a protected module; 0: not known */
    uint64_t times;
};

struct sti_report_point {
    uint64_t ns;     /* since its start */
    uint64_t cpu_ns; /* that the thread has had of the processor since it was first looked at, to 1 ms */
    uint64_t held;
    uint64_t allocated;
};

/* What the first words of some blocks are. */
enum sti_report_content {
    STI_REPORT_OTHER,
    STI_REPORT_ZEROS,
    STI_REPORT_STRING,
    STI_REPORT_POINTER, /* into a module */
};

struct sti_report_contents {
    enum sti_report_content kind;
    unsigned count;    /* of the blocks that were looked at */
    unsigned word;     /* POINTER: which of them, */
    uintptr_t address; /* and where to */
    char text[STI_REPORT_TEXT];
};

/* Blocks of one size: of above the next smaller one up to this. */
struct sti_report_class {
    size_t above;
    size_t size;
    size_t blocks;
    size_t bytes;
    unsigned looked_at; /* blocks, for what they contain */
    size_t full_pages;  /* without a free block */
    size_t content_count;
    struct sti_report_contents contents[STI_REPORT_CONTENTS];
};

struct sti_report_block {
    size_t size;
    struct sti_report_contents contents; /* OTHER, too, where it is not known which block of a page it is */
};

struct sti_report_heap {
    bool is_taken;
    uint64_t took_ns;
    size_t bytes; /* in all classes */
    size_t blocks;
    size_t libc_bytes;   /* and what libc has for it, */
    size_t mapped_bytes; /* and pages that it has mapped */
    size_t class_count;
    size_t largest_count;
    struct sti_report_class classes[STI_REPORT_CLASSES]; /* by size */
    struct sti_report_block largest[STI_REPORT_LARGEST];
};

struct sti_report_root {
    uintptr_t address; /* 0: a specific value */
    uint64_t offset;
    size_t size;                  /* of the block */
    char where[STI_REPORT_WHERE]; /* as stint_root.where */
    char module[STI_REPORT_PATH];
};

/* A callstack that holds blocks, as far as samples tell. */
struct sti_report_holder {
    uint64_t samples;
    uint64_t bytes;
    uint64_t blocks;
    size_t length;
    uintptr_t frames[STI_REPORT_HOLDER_DEPTH];
};

struct stint_report {
    bool is_mapped; /* made in a signal's handler: pages of its own */
    uint64_t cpu_begin;
    uint64_t stride; /* every so many-th measurement is a point */
    uint64_t measured;
    atomic_uint references;

    /* Of one whose addresses are another process's: freed with it. */
    struct sti_other_modules others;

    /* What sti_report_describe knows of its task. */
    stint_status status;
    stint_reason reason;
    int error;
    stint_usage usage;
    stint_budget budget;
    bool is_named;
    char name[STI_REPORT_NAME];
    char account[STI_REPORT_NAME]; /* empty: none */

    /* How its process ended, for the reasons that say that it did. */
    bool is_dead;
    stint_wall_death death;

    /* What was seen in its own process: from here on (sti_report_adopt). */
    bool is_delivered;
    bool was_elsewhere; /* another thread of the task tripped it */
    bool is_sampled;
    uint64_t deadline_ns; /* since its start; 0: none */
    uintptr_t function;
    size_t wait_count;
    size_t point_count;
    size_t root_count;
    size_t holder_count;
    double interval; /* bytes from one sample to the next */
    uint64_t samples;

    /* The lists that these count, which are not cleared: those of the heap lie at its end. */
    struct sti_report_stack tripped; /* on that other thread, then */
    struct sti_report_stack delivered;
    struct sti_report_wait waits[STI_REPORT_WAITS];
    struct sti_report_point points[STI_REPORT_POINTS];
    struct sti_report_root roots[STI_REPORT_ROOTS];
    struct sti_report_holder holders[STI_REPORT_HOLDERS]; /* those that hold most first */
    struct sti_report_heap heap;
};

/* --- While the task runs. Thread of the scope. --- */

/* The scope's report, made if it has none. In a signal's handler: without the allocator. NULL: no memory. */
struct stint_report *sti_report_of(struct sti_scope *scope, bool in_handler);

/* Make an empty report that belongs to no task yet. NULL: no memory. */
struct stint_report *sti_report_make(bool in_handler);

/* --- What was taken down. Any thread. --- */

void sti_report_free(struct stint_report *report);

/* Take down what all reports say of a task that is not running here: its options, which may be NULL, and its
 * outcome. */
void sti_report_describe(struct stint_report *report, const stint_options *options, const stint_outcome *outcome);

/* Make one of the bytes of another process's, wherever they come from: what they say may be wrong, but it can be read
 * and written as any other. The report has to be described first. 0; EPROTO: they are not so many; ENOMEM. */
int sti_report_adopt(const void *bytes, size_t size, struct stint_report **report);

/* Have the report's addresses looked up in these modules, which are copied. 0; ENOMEM. The thread that made the
 * report. */
int sti_report_set_others(struct stint_report *report, const struct sti_other_modules *others);

/* Hooks of reporting (hooks.h); report_where.h has the others. */
void sti_report_note_begin(struct sti_scope *scope);
void sti_report_note_begin_of_end(struct sti_scope *scope);
void sti_report_note_end(struct sti_scope *scope, const stint_outcome *outcome);
void sti_report_note_kept(struct stint_report *report, const struct sti_root *root, size_t size);

/* --- The writer of reports, in the module that writes profiles: writes into memory. 0; ENOMEM. One thread at a
 * time. --- */

typedef int sti_report_writer_fn(const struct stint_report *report, sti_demangle_fn *demangle, FILE *stream,
                                 stint_report_kind kind);
sti_report_writer_fn sti_report_writer;

#endif
