/* SPDX-License-Identifier: MIT
 *
 * The program's end of a child: its socket, its area, the descriptor of its process. In the program. A child belongs to
 * one thread at a time, the one that gives it tasks. */
#ifndef STI_EXECUTOR_WALL_CHILD_H
#define STI_EXECUTOR_WALL_CHILD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "area.h"

struct sti_wall_group;

struct sti_wall_child {
    struct sti_wall_child *next; /* of spare ones */
    int socket;
    int process; /* a pidfd; -1: it has not said hello */
    int ending;  /* the pipe on which the template tells how it has ended */
    pid_t pid;   /* for its clock; never to kill it */
    struct sti_wall_area *area;
    struct sti_wall_layout layout;
    struct sti_wall_group *group; /* NULL: it has none */
    unsigned tasks;               /* that it has been given */
    bool has_spoken;              /* since it was given the last one: HELLO does not count */
    bool has_left_unread;         /* its socket was closed with something unread in it */
    uint64_t committed;           /* bytes that they have left allocated, as it says */
};

/* Ask the template for one: it may not be there yet when this returns, or never come, but what is sent to it is not
 * lost before. NULL with errno; EAGAIN: the template does not read what it has been asked already; EPIPE: there is no
 * template, and there will be none. */
struct sti_wall_child *sti_wall_child_ask(const struct sti_wall_config *config, int control);

/* Give it a task, whose input lies in the area already. 0; EPIPE: it is gone. */
int sti_wall_child_offer(struct sti_wall_child *child, const struct sti_wall_message *task, const int *fds);

/* Withdraw the task that the child was offered. False: the child has begun it. */
bool sti_wall_child_withdraw(struct sti_wall_child *child);

/* Whether the child has begun its task, that is, has read it: a child that ends between the two counts as having begun.
 * What lies in the area says nothing, as the child may have written it. */
bool sti_wall_child_has_begun(struct sti_wall_child *child);

/* The next message, unless there is none yet; HELLO is taken down here. 0; EAGAIN; EPIPE: the last one has come;
 * EPROTO: it has said what it cannot say. */
int sti_wall_child_hear(struct sti_wall_child *child, struct sti_wall_message *message);

/* Have it take down where it is, and end. True: it has ended. Given a hundredth of a second. */
bool sti_wall_child_ask_where(struct sti_wall_child *child);

/* Kill it, wherever it is, and wait until it is gone: a tenth of a second at most. */
void sti_wall_child_kill(struct sti_wall_child *child);

/* What can be read when its process has ended: before it has said hello, the template's word. A fork(2) of the program
 * may have copies of the socket's ends, so that does not tell. */
static inline int sti_wall_child_end_fd(const struct sti_wall_child *child)
{
    return child->process >= 0 ? child->process : child->ending;
}

/* Its socket is closed. Whether that is because its process has ended, which may take it a moment: a fifth of a second
 * at most. False: it has closed the socket itself. */
bool sti_wall_child_has_ended(const struct sti_wall_child *child);

/* The child has ended: wait for the template's word on how, half a second at most. False: there is none. */
bool sti_wall_child_await_ending(const struct sti_wall_child *child, struct sti_wall_ending *ending);

/* Processor time that its process has used; 0: not known. */
uint64_t sti_wall_child_clock(const struct sti_wall_child *child);

/* Kill the child, as its code may do anything after its answer, and close its descriptors. One that has not said hello
 * ends as it finds its socket closed. */
void sti_wall_child_close(struct sti_wall_child *child);

/* The same, and its record is freed. */
void sti_wall_child_end(struct sti_wall_child *child);

/* In the child of a fork(2) of the program: only its descriptors are closed. */
void sti_wall_child_close_in_fork(struct sti_wall_child *child);

#endif
