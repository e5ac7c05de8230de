/* SPDX-License-Identifier: MIT
 *
 * Where a task was, why it went on from there, and how it came to that. Thread of the scope; the first two also in
 * handlers of signals that have stopped it. */
#ifndef STI_ALLOC_OBSERVE_REPORT_WHERE_H
#define STI_ALLOC_OBSERVE_REPORT_WHERE_H

struct sti_scope;
struct sti_registers;
struct sti_thread;

/* What the rest of the library tells (platform/reporting.h). */
void sti_report_note_measurement(struct sti_scope *scope, size_t held);
void sti_report_note_trip(struct sti_scope *scope);
void sti_report_note_deferral(struct sti_thread *thread, stint_deferral rule, const void *culprit,
                              const struct sti_registers *stopped);
void sti_report_note_delivery(struct sti_thread *thread, const struct sti_registers *stopped);

#endif
