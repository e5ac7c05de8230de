/* SPDX-License-Identifier: MIT
 *
 * What came of a job, as JSON; see record.h. */
#include "record.h"
#include "fields.h"

#include <stdlib.h>
#include <string.h>

#define STATUSES (STINT_CANCELLED + 1)
#define REASONS (STINT_REASON_BROKEN + 1)

char *record_write(const struct record *record)
{
    json_t *object = json_object();
    fields_set_outcome(object, &record->outcome, record->detail);
    fields_set_text(object, "why", record->why);
    fields_set_number(object, "items", record->items);
    fields_set_number(object, "deliveries", record->deliveries);
    fields_set_text(object, "worker", record->worker);
    char *text = json_dumps(object, JSON_COMPACT | JSON_ENSURE_ASCII);
    json_decref(object);
    return text;
}

static uint64_t number_of(const json_t *object, const char *key)
{
    json_int_t number = json_integer_value(json_object_get(object, key));
    return number > 0 ? (uint64_t)number : 0;
}

static char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? strdup(text) : NULL;
}

static bool read_outcome(const json_t *object, stint_outcome *outcome)
{
    const char *status = json_string_value(json_object_get(object, "outcome"));
    const char *reason = json_string_value(json_object_get(object, "reason"));
    if (!status || !reason)
        return false;
    int i = 0, j = 0;
    while (i < STATUSES && strcmp(stint_status_name((stint_status)i), status) != 0)
        i++;
    while (j < REASONS && strcmp(stint_reason_name((stint_reason)j), reason) != 0)
        j++;
    outcome->status = (stint_status)i;
    outcome->reason = (stint_reason)j;
    outcome->error = (int)number_of(object, "error");
    outcome->usage.allocated = (size_t)number_of(object, "allocated");
    outcome->usage.peak = (size_t)number_of(object, "peak");
    outcome->usage.wall_ns = number_of(object, "wall_ns");
    outcome->usage.queued_ns = number_of(object, "queued_ns");
    return i < STATUSES && j < REASONS;
}

bool record_read(struct record *record, const char *text, size_t size)
{
    *record = (struct record){ .detail = NULL };
    json_t *object = json_loadb(text, size, 0, NULL);
    bool good = object && read_outcome(object, &record->outcome);
    if (good) {
        record->items = number_of(object, "items");
        record->deliveries = number_of(object, "deliveries");
        record->detail = text_of(object, "detail");
        record->why = text_of(object, "why");
        record->worker = text_of(object, "worker");
        good = record->detail && record->worker;
    }
    json_decref(object);
    if (!good)
        record_free(record);
    return good;
}

void record_free(struct record *record)
{
    free(record->detail);
    free(record->why);
    free(record->worker);
    *record = (struct record){ .detail = NULL };
}
