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
