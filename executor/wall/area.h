/* SPDX-License-Identifier: MIT
 *
 * What the processes of a wall say to each other: messages over sockets, and the area that the program and one child
 * share. Any process of a wall, any thread.
 *
 *   control socket   program -> template: SPAWN, with the child's ends. Template -> program: READY, at each start
 *   child's socket   program -> child: TASK, GRANT. Child -> program: HELLO, DRAW, WARNING, DONE
 *   child's pipe     template -> program, when it has reaped the child: how that ended. The child has it not, so it
 *                    cannot lie about it
 *   area             a sealed memfd: its size cannot change. Header, crash record, report, input, reply
 *
 * A message is a packet: it is read whole, into the reader's own memory, and then checked. The area is written by the
 * child at any time: so it is copied, and the copy is checked. The one word of it that both sides change is the state
 * of the task, by compare-and-swap (acq_rel):
 *
 *   IDLE      -> OFFERED     by the program, before it sends the task
 *   OFFERED   -> PICKED      by the child, which begins it
 *   OFFERED   -> WITHDRAWN   by the program, which gives it to another child or to none: this child ends
 *
 * So one that is WITHDRAWN never begins it. Whether a child that has died had begun is not asked of the area, where it
 * may have written anything: the kernel tells whether it had read the task (sti_wall_child_has_begun). */
#ifndef STI_EXECUTOR_WALL_AREA_H
#define STI_EXECUTOR_WALL_AREA_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stint/wall.h>

#include "alloc/platform/limits.h"
#include "config.h"
#include "crash.h"

enum sti_wall_task_state { STI_WALL_IDLE, STI_WALL_OFFERED, STI_WALL_PICKED, STI_WALL_WITHDRAWN };

struct sti_wall_area {
    _Atomic uint32_t state;
    struct sti_limits limits; /* of bytes: the program changes them, and reads what the child says it has used */
    struct sti_crash_record crash;
};

/* Where the parts lie, from the beginning of the area. */
struct sti_wall_layout {
    size_t report;
    size_t report_room;
    size_t input;
    size_t reply;
    size_t size; /* of the whole */
};
struct sti_wall_layout sti_wall_layout(const struct sti_wall_config *config);

/* A new memfd for an area, of its final size and sealed; or -1 with errno. */
int sti_wall_area_make(const struct sti_wall_layout *layout);

/* Map it. NULL with errno. */
struct sti_wall_area *sti_wall_area_map(int fd, const struct sti_wall_layout *layout);
void sti_wall_area_unmap(struct sti_wall_area *area, const struct sti_wall_layout *layout);

/* --- Messages. --- */

enum sti_wall_kind {
    STI_WALL_SPAWN = 1,
    STI_WALL_READY,
    STI_WALL_TASK,
    STI_WALL_GRANT,
    STI_WALL_HELLO,
    STI_WALL_DRAW,
    STI_WALL_DONE,
    STI_WALL_WARNING,
};

#define STI_WALL_ENTRY_SIZE 64

struct sti_wall_task {
    stint_wall_fn *fn;               /* NULL: by its name */
    char entry[STI_WALL_ENTRY_SIZE]; /* of a program's function */
    char name[STI_WALL_NAME_SIZE];   /* of the task; empty: it has none */
    size_t input_size;
    size_t allocation; /* limits; 0: none */
    size_t memory;
    size_t grace;
    stint_on_interrupt on_interrupt;
    stint_report_level report;
    double sample_rate;
    bool measures_cpu; /* its processor time is wanted */
    bool wipe;
    bool discard;
    unsigned warn;
    bool has_account;
    unsigned fd_count;
    uint64_t granted[2]; /* of the account, before the first DRAW */
};

struct sti_wall_done {
    stint_reason reason;
    int error;
    stint_usage usage;
    size_t reply_size;   /* of an Ok task */
    size_t payload_size; /* of one that failed: its payload lies where the reply would */
    size_t report_size;  /* 0: there is none */
    char message[STINT_MESSAGE_SIZE];
};

/* What an account counts, as DRAW and GRANT number it. */
enum { STI_WALL_ALLOCATED, STI_WALL_MEMORY };

struct sti_wall_message {
    uint32_t kind;
    union {
        struct {
            int error;
            int pid;
            char text[STI_WALL_MESSAGE_SIZE];
        } ready;
        struct sti_wall_task task;
        struct {
            uint32_t number;
            uint64_t amount;
        } draw; /* and GRANT: what is granted; 0: refused */
        struct {
            int pid;
        } hello;
        struct {
            stint_reason reason;
            uint64_t used;
        } warning; /* of bytes */
        struct sti_wall_done done;
    };
};

/* What the template writes into a child's pipe. */
#define STI_WALL_NOT_FORKED (-1)

struct sti_wall_ending {
    int code;   /* CLD_EXITED, ...; or STI_WALL_NOT_FORKED */
    int status; /* of a fork that has failed: its errno */
};

/* Send a message of this kind, all of it or nothing, with descriptors (count at most STINT_WALL_FDS_MAX). Waits where
 * wait is true and the reader is slow. 0; EPIPE, ECONNRESET: nobody reads; EAGAIN. */
int sti_wall_send(int socket, const struct sti_wall_message *message, const int *fds, unsigned count, bool wait);

/* Receive one. fds: room for *count descriptors, or NULL: those that come are dropped; *count becomes how many came.
 * 0; EAGAIN: there is none (where wait is false); EPIPE: nobody writes any more; ECONNRESET: the same, told once, where
 * the other end was closed with something unread in it, and before what it had sent; EPROTO: it was none of ours. */
int sti_wall_receive(int socket, struct sti_wall_message *message, int *fds, unsigned *count, bool wait);

/* Behind READY of the first template, where that says 0: the modules that the template has loaded, as they are. False:
 * they could not be sent; or that is not what has come. */
bool sti_wall_send_modules(int socket, const struct sti_crash_modules *modules);
bool sti_wall_receive_modules(int socket, struct sti_crash_modules *modules);

#endif
