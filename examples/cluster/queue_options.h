/* SPDX-License-Identifier: MIT
 *
 * The options that both programs have: which servers, which queue, and by what right. Main thread. */
#ifndef CLUSTER_QUEUE_OPTIONS_H
#define CLUSTER_QUEUE_OPTIONS_H

#include "bus.h"
#include "streams.h"

#include <getopt.h>

enum { QUEUE_OPTION_STREAM = 512, QUEUE_OPTION_DURABLE, QUEUE_OPTION_CREDS, QUEUE_OPTION_TLS_CA };

/* For getopt_long's table, whose short ones have to have "s:". */
#define QUEUE_OPTIONS                                                                                                  \
    { "server", required_argument, NULL, 's' }, { "stream", required_argument, NULL, QUEUE_OPTION_STREAM },            \
        { "durable", required_argument, NULL, QUEUE_OPTION_DURABLE },                                                  \
        { "creds", required_argument, NULL, QUEUE_OPTION_CREDS },                                                      \
    {                                                                                                                  \
        "tls-ca", required_argument, NULL, QUEUE_OPTION_TLS_CA                                                         \
    }

#define QUEUE_OPTIONS_HELP                                                                                             \
    "  -s, --server URL[,...]   servers of one cluster, such as nats://127.0.0.1:4222\n"                               \
    "      --stream NAME        the stream of jobs; default JOBS\n"                                                    \
    "      --durable NAME       its consumer, which all workers share; default workers\n"                              \
    "      --creds FILE         credentials\n"                                                                         \
    "      --tls-ca FILE        use TLS, and trust these certificates\n"

/* Those that are not given have these values. */
#define QUEUE_STREAM_DEFAULT "JOBS"
#define QUEUE_DURABLE_DEFAULT "workers"

bool queue_options_has(int option);

/* One that it has, with getopt's argument. False: a line on standard error has said what is wrong. */
bool queue_options_read(int option, bus_options *bus, struct streams *streams);

/* After the last one: is there a server? False likewise. */
bool queue_options_end(const bus_options *bus);

#endif
