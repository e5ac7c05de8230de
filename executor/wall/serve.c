/* SPDX-License-Identifier: MIT
 *
 * A template that is a program of its own; see serve.h. What it is told is what a fork would have inherited, so it is
 * checked as little. */
#include "serve.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "alloc/platform/system.h"
#include "inside.h"
#include "template.h"

int sti_wall_send_config(int control, const struct sti_wall_config *config)
{
    return send(control, config, sizeof *config, MSG_NOSIGNAL) == (ssize_t)sizeof *config ? 0 : errno;
}

static bool entries_are_valid(const stint_wall_entry *entries, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (entries[i].fn == NULL || entries[i].name == NULL || entries[i].name[0] == '\0' ||
            strlen(entries[i].name) >= STI_WALL_ENTRY_SIZE)
            return false;
    }
    return true;
}

int stint_wall_serve(const stint_wall_entry *entries, size_t count)
{
    static struct sti_wall_config config;
    static struct sti_wall_entries served;
    const char *variable = getenv(STI_WALL_VARIABLE);
    if (entries == NULL || !entries_are_valid(entries, count))
        return EINVAL;
    if (variable == NULL)
        return ENOTCONN;
    if (sti_process_threads() > 1)
        return EBUSY;
    int control = atoi(variable);
    ssize_t size = recv(control, &config, sizeof config, MSG_WAITALL);
    if (size != (ssize_t)sizeof config || control != sti_wall_first_own_fd(&config))
        return ENOTCONN;
    unsetenv(STI_WALL_VARIABLE);
    served = (struct sti_wall_entries){ entries, count };
    sti_guardian_main(&config, &served, control, control + 1);
}
