/* SPDX-License-Identifier: MIT
 *
 * What the addresses of a report are called, and how its names and numbers are said. In the module that writes
 * profiles. One thread. */
#ifndef STI_ALLOC_REPORT_NAMES_H
#define STI_ALLOC_REPORT_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "alloc/profile/symbols.h"
#include "alloc/profile/write.h"
#include "report.h"

/* Look up all addresses of the report. 0; ENOMEM. */
int sti_report_names_open(struct sti_symbols *symbols, const struct stint_report *report, sti_demangle_fn *demangle);

/* What is called there, or executed right before a return address. */
const struct sti_frame *sti_report_data(const struct sti_symbols *symbols, uintptr_t address);
const struct sti_frame *sti_report_call(const struct sti_symbols *symbols, uintptr_t return_address);

/* That a wait was for; NULL: it is not known. */
const struct sti_frame *sti_report_awaited(const struct sti_symbols *symbols, const struct sti_report_wait *wait);

/* The file of its module, without folders; NULL: it is in none. */
const char *sti_report_module(const struct sti_symbols *symbols, const struct sti_frame *frame);

/* How far from the beginning of its module it is. */
uintptr_t sti_report_offset(const struct sti_symbols *symbols, const struct sti_frame *frame);

/* The name of a signal, or its number. The text is in the room. */
const char *sti_report_signal(char *room, int number);

/* Whether it is known at which address the fault was that ended the process. */
bool sti_report_has_address(const stint_wall_death *death);

/* The relative error of a number that so many samples tell: one in the root of that, in percent, rounded up. */
unsigned sti_report_error_percent(uint64_t samples);

/* A number of bytes for people. The text is in the room. */
#define STI_REPORT_ROOM 48
const char *sti_report_bytes(char *room, uint64_t bytes);
const char *sti_report_time(char *room, uint64_t ns);
const char *sti_report_number(char *room, uint64_t number); /* with commas */

/* The innermost functions, and the outermost one: a < b < c. */
void sti_report_chain(FILE *stream, const struct sti_symbols *symbols, const uintptr_t *frames, size_t length,
                      size_t innermost);

/* A name for people: what is no character, or would do something to a terminal, as its bytes in hexadecimal. */
void sti_report_put(FILE *stream, const char *name);

#endif
