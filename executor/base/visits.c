/* SPDX-License-Identifier: MIT
 *
 * Waiting for a visitor; see visits.h. Any thread. */
#include "visits.h"

#include "event.h"

atomic_uint sti_visits;

void sti_visit_await(void)
{
    /* acquire: what the visitor read it has read. */
    while (atomic_load_explicit(&sti_visits, memory_order_acquire) != 0)
        sti_futex_wait(&sti_visits, 1, NULL);
}
