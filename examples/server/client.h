/* SPDX-License-Identifier: MIT
 *
 * A client: one connection, watched for its end and for its slowness. While its request runs MHD does not look at its
 * socket; so the loop does, and a client that hangs up has its query stopped. And a client has so much time for sending
 * a request and for taking the end of an answer, however often it sends or takes a byte. The loop's. */
#ifndef SERVER_CLIENT_H
#define SERVER_CLIENT_H

#include "framing.h"
#include "server.h"

struct request;

struct client {
    struct watch watch; /* first: what its event points to */
    struct server *server;
    struct client *next, **link;
    struct MHD_Connection *connection;
    struct framing framing;
    int socket;
    unsigned char
        address[TENANTS_ADDRESS]; /* what one who asks has: all of an IPv4 address, the network of an IPv6 one */
    stint_account *account;       /* that of all clients with this address; NULL: keys are needed, or memory */
    bool loopback;
    bool failed;               /* its request has ended with the connection, which may still be there */
    bool gone;                 /* it has closed its side */
    uint64_t since_ns;         /* when what is timed began; 0: nothing is */
    struct request *request;   /* whose query may have to be stopped */
    struct listener *listener; /* of the page's events */
};

/* What MHD_OPTION_NOTIFY_CONNECTION wants; its argument is the server. */
void client_notify(void *server, struct MHD_Connection *connection, void **context,
                   enum MHD_ConnectionNotificationCode code);

/* The client of a connection; NULL: there was no memory for it. */
struct client *client_of(struct MHD_Connection *connection);

/* From now on it has so much time as the options say; or as much as it likes. */
void client_time(struct client *client);
void client_leave_time(struct client *client);

/* End the connection as soon as MHD looks at it again. */
void client_shut(struct client *client);

/* Its request could not be answered to its end: the connection is to go. */
void client_fail(struct client *client);

/* Shut those whose time is up: about once a second. */
void clients_sweep(struct server *server);

/* Free those that are gone, at the end of the loop's turn. */
void clients_bury(struct server *server);

#endif
