/* SPDX-License-Identifier: MIT
 *
 * Fields of a JSON object that is being made. What is missing from it for want of memory is left out: it stays one that
 * can be read. Any thread, an object at a time. */
#ifndef BATCH_FIELDS_H
#define BATCH_FIELDS_H

#include <jansson.h>
#include <stdint.h>
#include <stint/task.h>

/* What is not UTF-8 in it becomes U+FFFD; NULL is left out. */
void fields_set_text(json_t *object, const char *key, const char *text);

void fields_set_number(json_t *object, const char *key, uint64_t number);

/* How a task has ended, and what it has used. */
void fields_set_outcome(json_t *object, const stint_outcome *outcome, const char *detail);

#endif
