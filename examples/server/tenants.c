/* SPDX-License-Identifier: MIT
 *
 * The tenants; see tenants.h. */
#include "tenants.h"
#include "text.h"

#include <errno.h>
#include <ini.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY_MIN 8
#define NAME_MAX_LENGTH 63
#define MAX_WEIGHT 10000

struct tenant {
    char name[NAME_MAX_LENGTH + 1];
    char key[TENANTS_KEY_MAX + 1]; /* zero bytes behind it */
    stint_account_limits limits;
    stint_account *account; /* NULL: it is in a file only */
};

#define ADDRESSES 1024

struct address {
    unsigned char bytes[TENANTS_ADDRESS];
    stint_account *account; /* NULL: the entry is free */
    uint64_t asked;         /* by the table's clock */
};

struct tenants {
    struct tenant *list;
    size_t count;
    bool open;                 /* no key is asked for */
    struct address *addresses; /* then, and that many */
    uint64_t clock;            /* counts how often one asked */
};

struct tenants_file {
    struct tenants tenants;
    char *message;
    FILE *stream;
    bool cut; /* a line that says something has more characters than inih takes */
};

/* Reading */

static int wrong(struct tenants_file *file, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* What inih takes for an error of the line. The first one counts, as it goes on behind it. */
static int wrong(struct tenants_file *file, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (!file->message[0])
        vsnprintf(file->message, TENANTS_MESSAGE, format, arguments);
    va_end(arguments);
    return 0;
}

static struct tenant *find_name(const struct tenants *tenants, const char *name)
{
    for (size_t i = 0; i < tenants->count; i++) {
        if (strcmp(tenants->list[i].name, name) == 0)
            return &tenants->list[i];
    }
    return NULL;
}

static struct tenant *add(struct tenants *tenants, const char *name)
{
    struct tenant *list = reallocarray(tenants->list, tenants->count + 1, sizeof *list);
    if (!list)
        return NULL;
    tenants->list = list;
    struct tenant *tenant = &list[tenants->count++];
    *tenant = (struct tenant){ .limits = STINT_ACCOUNT_LIMITS_INIT };
    strcpy(tenant->name, name);
    return tenant;
}

static int read_key(struct tenants_file *file, struct tenant *tenant, const char *value)
{
    size_t length = strlen(value);
    if (length < KEY_MIN || length > TENANTS_KEY_MAX)
        return wrong(file, "the key of [%s] must have %d to %d characters", tenant->name, KEY_MIN, TENANTS_KEY_MAX);
    for (const char *c = value; *c; c++) {
        if (*c <= ' ' || *c > '~')
            return wrong(file, "the key of [%s] has characters that a header cannot have", tenant->name);
    }
    for (size_t i = 0; i < file->tenants.count; i++) {
        if (strcmp(file->tenants.list[i].key, value) == 0)
            return wrong(file, "[%s] and [%s] have the same key", file->tenants.list[i].name, tenant->name);
    }
    strcpy(tenant->key, value);
    return 1;
}

static int read_size(struct tenants_file *file, const char *name, const char *value, size_t *size)
{
    return text_read_size(value, size) ? 1 : wrong(file, "%s: '%s' is not a size, such as 64M or 1GiB", name, value);
}

static int read_number(struct tenants_file *file, const char *name, const char *value, uint64_t most, uint64_t *number)
{
    return text_read_number(value, number) && *number <= most
               ? 1
               : wrong(file, "%s: '%s' is not a number up to %" PRIu64, name, value, most);
}

static int read_value(struct tenants_file *file, struct tenant *tenant, const char *name, const char *value)
{
    uint64_t number = 0;
    int good;
    if (strcmp(name, "key") == 0)
        return read_key(file, tenant, value);
    if (strcmp(name, "memory") == 0)
        return read_size(file, name, value, &tenant->limits.memory);
    if (strcmp(name, "allocation") == 0)
        return read_size(file, name, value, &tenant->limits.allocation);
    if (strcmp(name, "running") == 0) {
        good = read_number(file, name, value, 1000000, &number);
        tenant->limits.running = (unsigned)number;
    } else if (strcmp(name, "waiting") == 0) {
        good = read_number(file, name, value, 1000000, &number);
        tenant->limits.waiting = number;
    } else if (strcmp(name, "weight") == 0) {
        good = read_number(file, name, value, MAX_WEIGHT, &number);
        tenant->limits.weight = (unsigned)number;
    } else {
        good = wrong(file, "'%s' is none of key, memory, allocation, running, waiting, weight", name);
    }
    return good;
}

static int take_line(void *argument, const char *section, const char *name, const char *value)
{
    struct tenants_file *file = argument;
    if (!section[0])
        return wrong(file, "'%s' stands before the first [TENANT]", name);
    if (strlen(section) > NAME_MAX_LENGTH - 1)
        return wrong(file, "the name of a tenant has more than %d characters", NAME_MAX_LENGTH - 1);
    struct tenant *tenant = find_name(&file->tenants, section);
    if (!tenant)
        tenant = add(&file->tenants, section);
    return tenant ? read_value(file, tenant, name, value) : wrong(file, "out of memory");
}

static int check_all(struct tenants_file *file)
{
    for (size_t i = 0; i < file->tenants.count; i++) {
        if (!file->tenants.list[i].key[0])
            return wrong(file, "[%s] has no key", file->tenants.list[i].name);
    }
    return file->tenants.count ? 1 : wrong(file, "the file has no [TENANT]");
}

/* As fgets, but no line becomes two: the end of a long comment could be taken for a setting. */
static char *read_line(char *line, int room, void *argument)
{
    struct tenants_file *file = argument;
    int end = 0;
    if (!fgets(line, room, file->stream))
        return NULL;
    if (!strchr(line, '\n'))
        end = fgetc(file->stream);
    if (end > 0 && end != '\n' && !strchr(";#", line[strspn(line, " \t")]))
        file->cut = true;
    while (end > 0 && end != '\n')
        end = fgetc(file->stream);
    return line;
}

static bool parse(struct tenants_file *file, const char *path, char message[TENANTS_MESSAGE])
{
    char reason[TENANTS_MESSAGE] = "";
    file->message = reason;
    file->stream = fopen(path, "re");
    if (!file->stream) {
        snprintf(message, TENANTS_MESSAGE, "%.100s: %s", path, strerror(errno));
        return false;
    }
    int line = ini_parse_stream(read_line, file, take_line, file);
    fclose(file->stream);
    if (file->cut)
        wrong(file, "a line is too long");
    if (line == 0 && !file->cut && check_all(file))
        return true;
    if (line > 0)
        snprintf(message, TENANTS_MESSAGE, "%.100s:%d: %.120s", path, line,
                 reason[0] ? reason : "not a line of an INI file");
    else
        snprintf(message, TENANTS_MESSAGE, "%.100s: %.120s", path, reason[0] ? reason : "the file cannot be read");
    return false;
}

struct tenants_file *tenants_file_read(const char *path, char message[TENANTS_MESSAGE])
{
    struct tenants_file *file = calloc(1, sizeof *file);
    if (!file)
        snprintf(message, TENANTS_MESSAGE, "%.100s: out of memory", path);
    if (file && parse(file, path, message))
        return file;
    tenants_file_free(file);
    return NULL;
}

void tenants_file_free(struct tenants_file *file)
{
    if (file)
        free(file->tenants.list);
    free(file);
}

/* In force */

static int open_account(const struct tenant *tenant, stint_account **account)
{
    stint_account_limits limits = tenant->limits;
    limits.name = tenant->name;
    return stint_account_create(NULL, &limits, account);
}

struct tenants *tenants_create(size_t waiting)
{
    struct tenants *tenants = calloc(1, sizeof *tenants);
    struct tenant *tenant = tenants ? add(tenants, "default") : NULL;
    if (tenant) {
        tenant->limits.waiting = waiting;
        tenants->addresses = calloc(ADDRESSES, sizeof *tenants->addresses);
        tenants->open = tenants->addresses && open_account(tenant, &tenant->account) == 0;
    }
    if (tenants && tenants->open)
        return tenants;
    tenants_free(tenants);
    return NULL;
}

/* Its entry; or else the one of which longest nothing was heard. */
static struct address *find_address(struct tenants *tenants, const unsigned char bytes[TENANTS_ADDRESS])
{
    struct address *oldest = tenants->addresses;
    for (struct address *one = tenants->addresses; one < tenants->addresses + ADDRESSES; one++) {
        if (one->account && memcmp(one->bytes, bytes, TENANTS_ADDRESS) == 0)
            return one;
        if (one->asked < oldest->asked)
            oldest = one;
    }
    return oldest;
}

stint_account *tenants_of_address(struct tenants *tenants, const unsigned char bytes[TENANTS_ADDRESS])
{
    if (!tenants->open)
        return NULL;
    struct address *address = find_address(tenants, bytes);
    if (!address->account || memcmp(address->bytes, bytes, TENANTS_ADDRESS) != 0) {
        stint_account *account = NULL;
        if (open_account(&tenants->list[0], &account) != 0)
            return NULL;
        stint_account_release(address->account);
        address->account = account;
        memcpy(address->bytes, bytes, TENANTS_ADDRESS);
    }
    address->asked = ++tenants->clock;
    return stint_account_retain(address->account);
}

static void drop_list(struct tenants *tenants)
{
    for (size_t i = 0; i < tenants->count; i++)
        stint_account_release(tenants->list[i].account);
    for (size_t i = 0; tenants->addresses && i < ADDRESSES; i++)
        stint_account_release(tenants->addresses[i].account);
    free(tenants->addresses);
    free(tenants->list);
    tenants->addresses = NULL;
    tenants->list = NULL;
    tenants->count = 0;
}

void tenants_free(struct tenants *tenants)
{
    if (tenants)
        drop_list(tenants);
    free(tenants);
}

/* The accounts that the file's tenants are to have: those that there are, and new ones. */
static int open_accounts(const struct tenants *tenants, struct tenants *next)
{
    for (size_t i = 0; i < next->count; i++) {
        struct tenant *tenant = &next->list[i];
        const struct tenant *known = find_name(tenants, tenant->name);
        tenant->account = known ? stint_account_retain(known->account) : NULL;
        if (!known && open_account(tenant, &tenant->account) != 0)
            return ENOMEM;
    }
    return 0;
}

int tenants_apply(struct tenants *tenants, const struct tenants_file *file)
{
    struct tenants next = { .list = reallocarray(NULL, file->tenants.count, sizeof *next.list) };
    if (!next.list)
        return ENOMEM;
    next.count = file->tenants.count;
    memcpy(next.list, file->tenants.list, next.count * sizeof *next.list);
    int error = open_accounts(tenants, &next);
    if (error) {
        drop_list(&next);
        return error;
    }
    for (size_t i = 0; i < next.count; i++)
        stint_account_set_limits(next.list[i].account, &next.list[i].limits);
    drop_list(tenants);
    *tenants = next;
    return 0;
}

/* Every byte of both is looked at, and no branch is taken by what they are. */
static unsigned difference(const char *key, const char *padded)
{
    size_t length = strlen(key);
    unsigned different = length > TENANTS_KEY_MAX;
    for (size_t i = 0; i < TENANTS_KEY_MAX; i++) {
        unsigned char byte = i < length ? (unsigned char)key[i] : 0;
        different |= (unsigned)(byte ^ (unsigned char)padded[i]);
    }
    return different;
}

bool tenants_keys_equal(const char *key, const char *other)
{
    char padded[TENANTS_KEY_MAX + 1] = "";
    strncpy(padded, other, TENANTS_KEY_MAX);
    return difference(key, padded) == 0;
}

stint_account *tenants_find(const struct tenants *tenants, const char *key, stint_account *address)
{
    if (tenants->open)
        return address ? address : tenants->list[0].account;
    stint_account *found = NULL;
    for (size_t i = 0; key && i < tenants->count; i++) {
        if (difference(key, tenants->list[i].key) == 0)
            found = tenants->list[i].account;
    }
    return found;
}

bool tenants_need_no_key(const struct tenants *tenants)
{
    return tenants->open;
}

const stint_account_limits *tenants_limits(const struct tenants *tenants, const stint_account *account)
{
    if (tenants->open)
        return &tenants->list[0].limits;
    for (size_t i = 0; i < tenants->count; i++) {
        if (tenants->list[i].account == account)
            return &tenants->list[i].limits;
    }
    return NULL;
}
