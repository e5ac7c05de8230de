/* SPDX-License-Identifier: MIT
 *
 * The sleep of a worker that has nothing to do. It ends when the worker is called. When it has lasted for a tenth
 * of a second, and whenever somebody needs memory, the worker gives back what it has and does not use (alloc/give_back.h);
 * and again every 0.4 s as long as others may free what its tasks have left: only this thread can give that back.
 *
 *   caller  calls + 1 (release), signal the event
 *   asker   idle? then asked = round (seq_cst), signal the event; idle (seq_cst)? no: take asked back
 *   worker  idle = true; value of the event (acquire); calls as before, and asked is 0? then wait for another value
 *           idle = false (seq_cst); take asked (seq_cst)
 *
 * A signal that comes after the value was read ends the wait at once; of one that came before, the worker sees what
 * was stored before it. When a worker is called just as it is asked, one of both finds what the other has stored,
 * since all four are in one total order; who takes asked, by an exchange, counts the worker out of the round. */
#ifndef STI_EXECUTOR_IDLE_H
#define STI_EXECUTOR_IDLE_H

#include <stdint.h>

struct sti_worker;

/* How often the worker has been called so far. To be read before anybody can know that it is going to sleep. Its own
 * thread. */
uint32_t sti_idle_calls(const struct sti_worker *worker);

/* Sleep until it is called once more than that. Its own thread. */
void sti_idle_sleep(struct sti_worker *worker, uint32_t calls);

/* End its sleep, or the next. Any thread. */
void sti_idle_call(struct sti_worker *worker);

/* If it is idle, have it give back. Any thread, while its pool is there. */
void sti_idle_ask(struct sti_worker *worker, uint32_t round);

#endif
