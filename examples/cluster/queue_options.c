/* SPDX-License-Identifier: MIT
 *
 * The options that both programs have; see queue_options.h. */
#include "queue_options.h"
#include "arguments.h"

#include <string.h>

bool queue_options_has(int option)
{
    return option == 's' || (option >= QUEUE_OPTION_STREAM && option <= QUEUE_OPTION_TLS_CA);
}

bool queue_options_read(int option, bus_options *bus, struct streams *streams)
{
    switch (option) {
    case 's':
        bus->servers = optarg;
        return true;
    case QUEUE_OPTION_STREAM:
        return arguments_name("--stream", optarg, &streams->name);
    case QUEUE_OPTION_DURABLE:
        return arguments_name("--durable", optarg, &streams->durable);
    case QUEUE_OPTION_CREDS:
        bus->creds = optarg;
        return true;
    default:
        bus->tls_ca = optarg;
        return true;
    }
}

/* An empty one would be taken for the client's own default, which nobody has asked for. */
static size_t count_servers(const char *list)
{
    size_t count = 0;
    while (*list) {
        size_t length = strcspn(list, ",");
        count += length > 0;
        list += length + (list[length] == ',');
    }
    return count;
}

bool queue_options_end(const bus_options *bus)
{
    size_t count = bus->servers ? count_servers(bus->servers) : 0;
    if (!bus->servers)
        return arguments_bad("--server is missing");
    if (count == 0)
        return arguments_bad("--server: a URL is missing");
    return count <= BUS_SERVERS_MAX ||
           arguments_bad("--server: %zu URLs, but at most %d are allowed", count, BUS_SERVERS_MAX);
}
