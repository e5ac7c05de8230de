/* SPDX-License-Identifier: MIT
 *
 * Blocking regions from the inside. They are counted in their scope, which closes those that it leaves open; what is done
 * about them is the business of whoever lends the thread to its tasks. Calling thread only. */
#ifndef STI_ALLOC_BLOCKING_H
#define STI_ALLOC_BLOCKING_H

struct sti_scope;

/* Told of each scope's first region when it begins, and of its last one's end. */
struct sti_lender {
    void (*falls_asleep)(void);
    void (*is_awake)(void);
};

/* Who lends the calling thread; NULL: nobody. */
void sti_blocking_set_lender(const struct sti_lender *lender);

/* A region of the library's own, around a wait: its end is no sample point. */
void sti_blocking_sleep(void);
void sti_blocking_awake(void);

/* The scope ends with regions open. */
void sti_blocking_close(struct sti_scope *scope);

#endif
