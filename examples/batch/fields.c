/* SPDX-License-Identifier: MIT
 *
 * Fields of a JSON object; see fields.h. */
#include "fields.h"
#include "text.h"

#include <stdlib.h>

void fields_set_text(json_t *object, const char *key, const char *text)
{
    char *clean = text ? text_clean(text, false) : NULL;
    if (clean)
        json_object_set_new(object, key, json_string(clean));
    free(clean);
}

void fields_set_number(json_t *object, const char *key, uint64_t number)
{
    json_object_set_new(object, key, json_integer((json_int_t)number));
}

void fields_set_outcome(json_t *object, const stint_outcome *outcome, const char *detail)
{
    fields_set_text(object, "outcome", stint_status_name(outcome->status));
    fields_set_text(object, "reason", stint_reason_name(outcome->reason));
    fields_set_number(object, "error", (uint64_t)outcome->error);
    fields_set_text(object, "detail", detail);
    fields_set_number(object, "allocated", outcome->usage.allocated);
    fields_set_number(object, "peak", outcome->usage.peak);
    fields_set_number(object, "wall_ns", outcome->usage.wall_ns);
    fields_set_number(object, "queued_ns", outcome->usage.queued_ns);
}
