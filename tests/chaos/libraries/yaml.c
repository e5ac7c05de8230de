/* SPDX-License-Identifier: MIT
 *
 * libyaml: some text is read as events, and these are written again. */
#include "library.h"

#include <stdio.h>
#include <yaml.h>

#define TEXT 1024

static int take_in(void *sum, unsigned char *bytes, size_t size)
{
    chaos_add(sum, bytes, size);
    return 1;
}

static int copy_events(yaml_parser_t *parser, yaml_emitter_t *emitter)
{
    yaml_event_t event;
    bool ended = false;
    while (!ended) {
        if (!yaml_parser_parse(parser, &event))
            return -1;
        ended = event.type == YAML_STREAM_END_EVENT;
        if (!yaml_emitter_emit(emitter, &event)) /* which takes the event, also where it fails */
            return -1;
    }
    return 0;
}

static int run(unsigned variant, uint64_t *sum)
{
    char text[TEXT];
    size_t length = (size_t)snprintf(text, sizeof text, "--- # %u\nanchor: &a [1, 2.5, ~]\nalias: *a\n", variant);
    for (unsigned i = 0; i < 10 + variant; i++)
        length += (size_t)snprintf(text + length, sizeof text - length,
                                   "key%u: {name: 'it %u', list: [%u, \"\\t%u\"]}\n", i, i * 7, i * variant, i);
    yaml_parser_t parser;
    yaml_emitter_t emitter;
    if (!yaml_parser_initialize(&parser))
        return -1;
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, length);
    int error = -1;
    if (yaml_emitter_initialize(&emitter)) {
        yaml_emitter_set_output(&emitter, take_in, sum);
        error = copy_events(&parser, &emitter);
        yaml_emitter_delete(&emitter);
    }
    yaml_parser_delete(&parser);
    return error;
}

const struct chaos_library CHAOS_ONE = {
    .name = "libyaml",
    .modes = CHAOS_ANY_MODE,
    .preemptible = true,
    .run = run,
    .modules = "libyaml-0",
    .version = yaml_get_version_string,
};
