/* SPDX-License-Identifier: MIT
 *
 * A wall from its making to its end; see wall.h. Any thread, but for stint_wall_create. */
#include "wall.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "alloc/platform/link.h"
#include "alloc/platform/module.h"
#include "alloc/platform/process.h"
#include "alloc/platform/sized.h"
#include "alloc/platform/system.h"
#include "executor/pool/pool.h"
#include "executor/task/continuation.h"
#include "executor/worker/worker.h"
#include "sandbox.h"
#include "serve.h"
#include "template.h"
#include "walled.h"

#define DEFAULT_LIMIT ((size_t)64 << 20)
#define LARGEST_LIMIT ((size_t)4 << 30)
#define DEFAULT_MEMORY ((size_t)4 << 30)
#define DEFAULT_DESCRIPTORS 64
#define DEFAULT_STACK ((size_t)8 << 20)
#define CHILDREN_MAX 1024
#define END_PATIENCE_MS 2000

/* --- The list of all walls: in the child of a fork(2) their descriptors are closed, so that the end of this process is
 * still seen by the wall's. Nobody holds its lock at a fork(2). So it is that of each wall's spare children too, and is
 * held while a child's descriptors are made or closed: the fork finds all of them where it looks. --- */

static stint_wall *all;

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;

static void close_number(int *fd)
{
    if (*fd >= 0)
        syscall(SYS_close, *fd);
    *fd = -1;
}

static void close_listed(int *fd)
{
    sti_real_mutex_lock(&list_lock);
    close_number(fd);
    sti_real_mutex_unlock(&list_lock);
}

static void leave_behind(stint_wall *wall)
{
    wall->is_parents = true;
    close_number(&wall->control);
    close_number(&wall->lifeline);
    close_number(&wall->guardian);
    for (struct sti_wall_child *child = wall->spares; child != NULL; child = child->next)
        sti_wall_child_close_in_fork(child);
    for (unsigned i = 0; wall->drivers != NULL && i < wall->children; i++) {
        close_number(&wall->drivers[i].wake_fd);
        if (wall->drivers[i].child != NULL)
            sti_wall_child_close_in_fork(wall->drivers[i].child);
        if (wall->drivers[i].used != NULL)
            sti_wall_child_close_in_fork(wall->drivers[i].used);
    }
}

/* A fork(2) waits until no driver is making the ends of a child: so the process that it makes closes all ends that
 * there are. Only drivers, and threads that make and end walls, take the lock. */
STI_FORK_HANDLER void sti_walls_before_fork(void)
{
    if (!sti_process_child_is_whole())
        sti_real_mutex_lock(&list_lock);
}

STI_FORK_HANDLER void sti_walls_after_fork(void)
{
    if (!sti_process_child_is_whole())
        sti_real_mutex_unlock(&list_lock);
}

STI_FORK_HANDLER void sti_walls_in_child(void)
{
    for (stint_wall *wall = all; wall != NULL; wall = wall->next)
        leave_behind(wall);
    if (all != NULL)
        all = NULL;
    sti_walls_after_fork();
}

static void wall_put_on_list(stint_wall *wall)
{
    sti_process_note_use();
    sti_real_mutex_lock(&list_lock);
    wall->next = all;
    all = wall;
    sti_real_mutex_unlock(&list_lock);
}

static void wall_take_off_list(stint_wall *wall)
{
    sti_real_mutex_lock(&list_lock);
    stint_wall **link = &all;
    while (*link != wall)
        link = &(*link)->next;
    *link = wall->next;
    sti_real_mutex_unlock(&list_lock);
}

/* --- The modules of the program. --- */

struct module {
    uintptr_t begin;
    uintptr_t end;
    uint64_t name; /* its hash */
};

struct sti_wall_modules {
    size_t count;
    size_t room;
    struct module *all;
};

static uint64_t hash_name(const char *name)
{
    uint64_t hash = UINT64_C(14695981039346656037); /* FNV-1a */
    for (; *name != '\0'; name++)
        hash = (hash ^ (unsigned char)*name) * UINT64_C(1099511628211);
    return hash;
}

static int wall_note_module(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct sti_wall_modules *modules = arg;
    struct module module = { .begin = UINTPTR_MAX, .name = hash_name(info->dlpi_name) };
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        uintptr_t begin = info->dlpi_addr + header->p_vaddr;
        if (header->p_type != PT_LOAD)
            continue;
        module.begin = begin < module.begin ? begin : module.begin;
        module.end = begin + header->p_memsz > module.end ? begin + header->p_memsz : module.end;
    }
    if (modules->count == modules->room) {
        size_t room = modules->room != 0 ? 2 * modules->room : 32;
        struct module *more = sti_process_realloc(modules->all, room * sizeof *more);
        if (more == NULL)
            return ENOMEM;
        modules->all = more;
        modules->room = room;
    }
    modules->all[modules->count++] = module;
    return 0;
}

static void free_modules(struct sti_wall_modules *modules)
{
    if (modules != NULL)
        sti_process_free(modules->all);
    sti_process_free(modules);
}

static struct sti_wall_modules *note_modules(void)
{
    struct sti_wall_modules *modules = sti_process_calloc(1, sizeof *modules);
    if (modules != NULL && sti_modules_visit(wall_note_module, modules) != 0) {
        free_modules(modules);
        return NULL;
    }
    return modules;
}

/* The name too: another library may have been loaded since where one has gone. */
bool sti_wall_knows_function(const stint_wall *wall, stint_wall_fn *fn)
{
    struct dl_find_object found;
    uintptr_t address = (uintptr_t)fn;
    if (_dl_find_object((void *)address, &found) != 0 || found.dlfo_link_map == NULL)
        return false;
    uint64_t name = hash_name(found.dlfo_link_map->l_name);
    for (size_t i = 0; i < wall->modules->count; i++) {
        const struct module *module = &wall->modules->all[i];
        if (address >= module->begin && address < module->end && name == module->name)
            return true;
    }
    return false;
}

/* --- Options. --- */

static __attribute__((format(printf, 3, 4))) int wall_complain(const stint_wall_options *options, int error,
                                                               const char *format, ...)
{
    va_list arguments;
    if (options->message == NULL || options->message_size == 0)
        return error;
    va_start(arguments, format);
    vsnprintf(options->message, options->message_size, format, arguments);
    va_end(arguments);
    return error;
}

static size_t or_default(size_t value, size_t otherwise)
{
    return value != 0 ? value : otherwise;
}

static int take_paths(struct sti_wall_config *config, const stint_wall_options *options)
{
    if (options->paths == NULL && options->path_count > 0)
        return wall_complain(options, EINVAL, "paths: NULL, but path_count is %zu", options->path_count);
    if (options->path_count > STI_WALL_PATHS_MAX)
        return wall_complain(options, EINVAL, "path_count: at most %d paths can be named", STI_WALL_PATHS_MAX);
    for (size_t i = 0; i < options->path_count; i++) {
        const char *path = options->paths[i].path;
        if (path == NULL || path[0] == '\0' || strlen(path) >= STI_WALL_PATH_SIZE)
            return wall_complain(options, EINVAL, "paths[%zu]: a path has 1 to %d bytes", i, STI_WALL_PATH_SIZE - 1);
        strcpy(config->paths[i].path, path);
        config->paths[i].writable = options->paths[i].writable;
    }
    config->path_count = options->path_count;
    if (options->cgroup != NULL && strlen(options->cgroup) >= STI_WALL_PATH_SIZE)
        return wall_complain(options, EINVAL, "cgroup: a path has at most %d bytes", STI_WALL_PATH_SIZE - 1);
    strcpy(config->cgroup, options->cgroup != NULL ? options->cgroup : "");
    return 0;
}

static int take_fds(struct sti_wall_config *config, const stint_wall_options *options)
{
    if (options->fds == NULL && options->fd_count > 0)
        return wall_complain(options, EINVAL, "fds: NULL, but fd_count is %zu", options->fd_count);
    if (options->fd_count > STI_WALL_FDS_MAX)
        return wall_complain(options, EINVAL, "fd_count: at most %d descriptors can be named", STI_WALL_FDS_MAX);
    for (size_t i = 0; i < options->fd_count; i++) {
        if (options->fds[i] < 0 || fcntl(options->fds[i], F_GETFD) < 0)
            return wall_complain(options, EINVAL, "fds[%zu]: descriptor %d is not open", i, options->fds[i]);
        config->fds[i] = options->fds[i];
    }
    config->fd_count = options->fd_count;
    return 0;
}

static int wall_take_options(struct sti_wall_config *config, const stint_wall_options *options)
{
    if ((unsigned)options->sandbox > (unsigned)STINT_WALL_OPEN)
        return wall_complain(options, EINVAL, "sandbox: neither STINT_WALL_CLOSED nor STINT_WALL_OPEN");
    if (options->children > CHILDREN_MAX || options->spare > CHILDREN_MAX)
        return wall_complain(options, EINVAL, "children, spare: at most %d", CHILDREN_MAX);
    if (options->processes > 0 && options->tasks_per_child > 1)
        return wall_complain(
            options, EINVAL,
            "tasks_per_child: a child that may start processes and threads is not used again, as they could "
            "outlive a task");
    if (options->input_limit > LARGEST_LIMIT || options->reply_limit > LARGEST_LIMIT)
        return wall_complain(options, EINVAL, "input_limit, reply_limit: at most 4 GiB");
    if (!sti_link_flags_valid(options->flags))
        return wall_complain(options, EINVAL, "flags: only STINT_ALLOW_UNMETERED is known");
    if (options->program != NULL && (options->setup != NULL || options->filter != NULL))
        return wall_complain(options, EINVAL, "setup, filter: a program does its own before it calls stint_wall_serve");
    if (options->queue_capacity > STI_QUEUE_CAPACITY_MAX)
        return wall_complain(options, EINVAL, "queue_capacity: at most %zu", (size_t)STI_QUEUE_CAPACITY_MAX);
    snprintf(config->name, sizeof config->name, "%s", options->name != NULL ? options->name : "wall");
    config->setup = options->setup;
    config->setup_arg = options->setup_arg;
    config->filter = options->filter;
    config->filter_arg = options->filter_arg;
    config->sandbox = options->sandbox;
    config->input_limit = or_default(options->input_limit, DEFAULT_LIMIT);
    config->reply_limit = or_default(options->reply_limit, DEFAULT_LIMIT);
    config->memory = or_default(options->memory, DEFAULT_MEMORY);
    config->descriptors = options->descriptors != 0 ? options->descriptors : DEFAULT_DESCRIPTORS;
    config->processes = options->processes;
    config->file_size = options->file_size;
    config->stack = or_default(options->stack, DEFAULT_STACK);
    config->reuses = options->tasks_per_child > 1;
    int error = take_paths(config, options);
    return error != 0 ? error : take_fds(config, options);
}

/* --- Starting its processes. --- */

/* A fork takes one thread along. */
static int refuse_threads(const stint_wall_options *options)
{
    unsigned count = sti_process_threads();
    if (count <= 1)
        return 0;
    return wall_complain(
        options, EBUSY,
        "the process has %u threads: make walls before pools and threads, or name a program for the template", count);
}

/* Without a descriptor of it nobody could wait for its end later. */
static int guardian_hold(stint_wall *wall, pid_t pid)
{
    wall->guardian = (int)syscall(SYS_pidfd_open, pid, 0);
    if (wall->guardian >= 0)
        return 0;
    int error = errno;
    kill(pid, SIGKILL);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    return error;
}

/* The guardian never returns to the program's code. */
static int fork_guardian(stint_wall *wall, int control, int lifeline)
{
    static const struct sti_wall_entries none;
    fflush(NULL); /* or what is buffered would be written twice */
    pid_t pid = sti_process_fork();
    if (pid == 0)
        sti_guardian_main(&wall->config, &none, control, lifeline);
    return pid < 0 ? errno : guardian_hold(wall, pid);
}

/* Until the program says for itself what becomes of it then (template.c), it does not outlive this process. */
static void kill_when_alone(int lifeline, pid_t group)
{
    fcntl(lifeline, F_SETOWN, -group);
    fcntl(lifeline, F_SETSIG, SIGKILL);
    fcntl(lifeline, F_SETFL, O_ASYNC | O_NONBLOCK);
}

/* None but those that were named, the standard ones leading nowhere: also before it calls stint_wall_serve. */
static int leave_out_others(const struct sti_wall_config *config, posix_spawn_file_actions_t *actions)
{
    int error = 0;
    for (int fd = 0; fd < sti_wall_first_own_fd(config) && error == 0; fd++) {
        if (sti_wall_is_named(config, fd)) /* a copy of itself has no close-on-exec */
            error = posix_spawn_file_actions_adddup2(actions, fd, fd);
        else if (fd < 3)
            error = posix_spawn_file_actions_addopen(actions, fd, "/dev/null", O_RDWR, 0);
        else
            error = posix_spawn_file_actions_addclose(actions, fd);
    }
    return error;
}

/* Its descriptors are where stint_wall_serve is told to look for them. */
static int spawn_program(stint_wall *wall, const stint_wall_options *options, int control, int lifeline)
{
    char own_name[STI_WALL_PATH_SIZE];
    char variable[64];
    char *const environment[] = { variable, NULL };
    char *const arguments[] = { own_name, NULL };
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int first = sti_wall_first_own_fd(&wall->config);
    pid_t pid;
    snprintf(own_name, sizeof own_name, "%s", options->program);
    snprintf(variable, sizeof variable, "STINT_WALL=%d", first);
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    int moved = fcntl(control, F_DUPFD_CLOEXEC, first + 2);
    int moved_line = fcntl(lifeline, F_DUPFD_CLOEXEC, first + 2);
    int error = moved < 0 || moved_line < 0 ? errno : posix_spawn_file_actions_adddup2(&actions, moved, first);
    if (error == 0)
        error = posix_spawn_file_actions_adddup2(&actions, moved_line, first + 1);
    if (error == 0)
        error = leave_out_others(&wall->config, &actions);
    if (error == 0)
        error = posix_spawn_file_actions_addclosefrom_np(&actions, first + 2);
    if (error == 0)
        error = posix_spawn(&pid, options->program, &actions, &attributes,
                            options->arguments != NULL ? options->arguments : arguments, environment);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    close_number(&moved);
    close_number(&moved_line);
    if (error != 0)
        return error;
    kill_when_alone(lifeline, pid);
    error = guardian_hold(wall, pid);
    return error == 0 ? sti_wall_send_config(wall->control, &wall->config) : error;
}

static int start_unlocked(stint_wall *wall, const stint_wall_options *options)
{
    int ends[2] = { -1, -1 };
    int line[2] = { -1, -1 };
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return errno;
    wall->control = ends[0];
    int error = pipe2(line, O_CLOEXEC) == 0 ? 0 : errno;
    wall->lifeline = line[1];
    if (error == 0)
        error = options->program != NULL ? spawn_program(wall, options, ends[1], line[0])
                                         : fork_guardian(wall, ends[1], line[0]);
    close_number(&ends[1]);
    close_number(&line[0]);
    return error;
}

/* To start a program is no fork(2), but there may be threads that fork. */
static int start_processes(stint_wall *wall, const stint_wall_options *options)
{
    if (options->program == NULL)
        return start_unlocked(wall, options);
    sti_real_mutex_lock(&list_lock);
    int error = start_unlocked(wall, options);
    sti_real_mutex_unlock(&list_lock);
    return error;
}

/* Until setup has returned, in the template. */
static int await_ready(stint_wall *wall, const stint_wall_options *options)
{
    struct sti_wall_message message;
    int error = sti_wall_receive(wall->control, &message, NULL, NULL, true);
    if (error == 0 && message.kind != STI_WALL_READY)
        error = EPROTO;
    if (error == EPIPE || error == ECONNRESET)
        return wall_complain(options, ECHILD, "the template ended before it was ready");
    if (error != 0)
        return wall_complain(options, error, "the template has said nothing that can be understood");
    message.ready.text[sizeof message.ready.text - 1] = '\0';
    if (message.ready.error != 0)
        return wall_complain(options, message.ready.error, "%s", message.ready.text);
    wall->template_pid = message.ready.pid;
    wall->known = sti_process_malloc(sizeof *wall->known);
    if (wall->known == NULL || !sti_wall_receive_modules(wall->control, wall->known))
        return wall_complain(options, wall->known == NULL ? ENOMEM : ECHILD, "the template ended before it was ready");
    return 0;
}

/* First by their own means, then by the kernel's. */
static void end_processes(stint_wall *wall)
{
    siginfo_t end;
    close_listed(&wall->control);
    if (wall->guardian >= 0) {
        struct pollfd held = { .fd = wall->lifeline }; /* by the guardian and the template, until they have ended */
        poll(&held, 1, END_PATIENCE_MS);
        close_listed(&wall->lifeline);
        syscall(SYS_pidfd_send_signal, wall->guardian, SIGKILL, NULL, 0);
        while (waitid(P_PIDFD, (id_t)wall->guardian, &end, WEXITED) != 0 && errno == EINTR)
            ;
    }
    close_listed(&wall->lifeline);
    close_listed(&wall->guardian);
}

/* --- Making it. --- */

static void free_wall(stint_wall *wall)
{
    for (unsigned i = 0; wall->drivers != NULL && i < wall->children; i++)
        close_number(&wall->drivers[i].wake_fd);
    sti_process_free(wall->drivers);
    free_modules(wall->modules);
    sti_process_free(wall->known);
    pthread_mutex_destroy(&wall->lock);
    sti_process_free(wall);
}

static stint_wall *make_wall(const stint_wall_options *options, int *error)
{
    stint_wall *wall = sti_process_calloc(1, sizeof *wall);
    *error = ENOMEM;
    if (wall == NULL)
        return NULL;
    pthread_mutex_init(&wall->lock, NULL);
    wall->control = wall->lifeline = wall->guardian = -1;
    wall->children = options->children;
    wall->tasks_per_child = options->tasks_per_child != 0 ? options->tasks_per_child : 1;
    wall->spare_wanted = options->spare;
    wall->queue_capacity = options->queue_capacity;
    wall->flags = options->flags;
    wall->is_program = options->program != NULL;
    *error = wall_take_options(&wall->config, options);
    if (*error == 0 && (wall->modules = note_modules()) == NULL)
        *error = ENOMEM;
    if (*error == 0)
        return wall;
    free_wall(wall);
    return NULL;
}

static int wall_start(stint_wall *wall, const stint_wall_options *options)
{
    char text[STI_WALL_MESSAGE_SIZE] = "";
    int error = sti_sandbox_check(&wall->config, text, sizeof text);
    if (error != 0)
        return wall_complain(options, error, "%s", text);
    error = options->program == NULL ? refuse_threads(options) : 0;
    if (error != 0)
        return error;
    error = start_processes(wall, options);
    if (error != 0)
        return wall_complain(options, error, "%s could not be started: %s",
                             options->program != NULL ? options->program : "the wall's processes", strerror(error));
    return await_ready(wall, options);
}

static int wall_create(const stint_wall_options *options, stint_wall **wall)
{
    int error;
    stint_wall *made = make_wall(options, &error);
    if (made == NULL)
        return error;
    wall_put_on_list(made);
    error = wall_start(made, options);
    if (error != 0) {
        end_processes(made);
        wall_take_off_list(made);
        free_wall(made);
        return error;
    }
    sti_wall_refill(made);
    *wall = made;
    return 0;
}

int stint_wall_create(const stint_wall_options *given, stint_wall **wall)
{
    if (sti_process_is_partial())
        return ENOTSUP;
    stint_wall_options options = STINT_WALL_OPTIONS_INIT;
    if (wall == NULL)
        return EINVAL;
    int error =
        given != NULL ? sti_sized_in(&options, sizeof options, STI_SIZED_UP_TO(stint_wall_options, flags), given) : 0;
    if (error != 0)
        return error;
    if (options.message != NULL && options.message_size > 0)
        options.message[0] = '\0';
    if (sti_thread_metered != NULL || sti_continuation_is_running())
        return wall_complain(&options, EDEADLK, "a wall cannot be made in a task or a callback");
    if (sti_backend_check() != 0 || !sti_link_allows(options.flags))
        return wall_complain(&options, ENOTSUP,
                             "the program is linked so that nothing would be metered: stint_link_check");
    return wall_create(&options, wall);
}

/* --- Its own pool. --- */

/* All or none: a driver without a wake_fd would sleep through its task's deadline. */
static int make_drivers(stint_wall *wall, unsigned count)
{
    struct sti_wall_driver *drivers = sti_process_calloc(count, sizeof *drivers);
    unsigned made = 0;
    if (drivers == NULL)
        return ENOMEM;
    while (made < count && (drivers[made].wake_fd = (int)syscall(SYS_eventfd2, 0, EFD_CLOEXEC | EFD_NONBLOCK)) >= 0)
        made++;
    if (made < count) {
        int error = errno;
        while (made > 0)
            close_number(&drivers[--made].wake_fd);
        sti_process_free(drivers);
        return error;
    }
    wall->drivers = drivers;
    wall->children = count;
    return 0;
}

static int wall_make_pool(stint_wall *wall, const stint_pool *first, stint_pool **pool)
{
    const stint_pool_options options = {
        .size = sizeof options,
        .workers = wall->children != 0 ? wall->children : stint_pool_workers(first),
        .queue_capacity = wall->queue_capacity,
        .name = wall->config.name,
        .substitutes = STINT_NO_SUBSTITUTES,
        .flags = wall->flags,
    };
    int error = wall->drivers == NULL ? make_drivers(wall, options.workers) : 0;
    if (error == 0)
        error = sti_pool_create_hooked(&options, &sti_walled_hooks, pool);
    if (error == 0)
        atomic_store_explicit(&wall->pool, *pool, memory_order_release);
    return error;
}

int sti_wall_open_pool(stint_wall *wall, const stint_pool *first, stint_pool **pool)
{
    *pool = atomic_load_explicit(&wall->pool, memory_order_acquire);
    if (*pool != NULL)
        return 0;
    sti_real_mutex_lock(&wall->lock);
    *pool = atomic_load_explicit(&wall->pool, memory_order_relaxed);
    int error = *pool == NULL ? wall_make_pool(wall, first, pool) : 0;
    sti_real_mutex_unlock(&wall->lock);
    return error;
}

/* --- Children. --- */

/* The next three under the lock of the list. */
static struct sti_wall_child *wall_ask(stint_wall *wall)
{
    struct sti_wall_child *child = sti_wall_child_ask(&wall->config, wall->control);
    if (child != NULL)
        sti_wall_count(&wall->started);
    return child;
}

static struct sti_wall_child *take_spare(stint_wall *wall)
{
    struct sti_wall_child *child = wall->spares;
    if (child != NULL) {
        wall->spares = child->next;
        wall->spare_count--;
    }
    return child;
}

/* False: there are enough, or there can be none now. */
static bool add_spare(stint_wall *wall)
{
    struct sti_wall_child *child = wall->spare_count < wall->spare_wanted ? wall_ask(wall) : NULL;
    struct sti_wall_child **link = &wall->spares; /* the oldest is taken first: it is the most likely to be there */
    if (child == NULL)
        return false;
    while (*link != NULL)
        link = &(*link)->next;
    *link = child;
    wall->spare_count++;
    return true;
}

void sti_wall_refill(stint_wall *wall)
{
    bool is_added = wall->spare_wanted != 0;
    while (is_added) {
        sti_real_mutex_lock(&list_lock);
        is_added = add_spare(wall);
        sti_real_mutex_unlock(&list_lock);
    }
}

struct sti_wall_child *sti_wall_take_child(stint_wall *wall, struct sti_wall_driver *driver)
{
    if (driver->child != NULL)
        return driver->child;
    sti_real_mutex_lock(&list_lock);
    driver->child = take_spare(wall);
    if (driver->child == NULL)
        driver->child = wall_ask(wall);
    sti_real_mutex_unlock(&list_lock);
    return driver->child;
}

static void end_child(struct sti_wall_child **place)
{
    if (*place == NULL)
        return;
    sti_real_mutex_lock(&list_lock);
    struct sti_wall_child *child = *place;
    *place = NULL;
    sti_wall_child_close(child);
    sti_real_mutex_unlock(&list_lock);
    sti_wall_child_end(child);
}

/* Nobody else uses the wall any more. */
static void end_spares(stint_wall *wall)
{
    while (wall->spares != NULL) {
        struct sti_wall_child *next = wall->spares->next;
        end_child(&wall->spares);
        wall->spares = next;
    }
}

void sti_wall_drop_child(struct sti_wall_driver *driver)
{
    end_child(&driver->child);
}

void sti_wall_end_used(struct sti_wall_driver *driver)
{
    end_child(&driver->used);
}

/* --- Its end. --- */

void sti_wall_leave_pool(stint_wall *wall, stint_pool *pool)
{
    pool->next_pool = atomic_load_explicit(&wall->left, memory_order_relaxed);
    /* release: the thread that takes it sees all that its workers did. */
    while (!atomic_compare_exchange_weak_explicit(&wall->left, &pool->next_pool, pool, memory_order_release,
                                                  memory_order_relaxed))
        ;
}

void sti_wall_free_left(stint_wall *wall)
{
    if (atomic_load_explicit(&wall->left, memory_order_relaxed) == NULL)
        return;
    stint_pool *pool = atomic_exchange_explicit(&wall->left, NULL, memory_order_acquire);
    while (pool != NULL) {
        stint_pool *next = pool->next_pool;
        sti_pool_free(pool);
        pool = next;
    }
}

static void wake_drivers(stint_wall *wall)
{
    const uint64_t one = 1;
    for (unsigned i = 0; wall->drivers != NULL && i < wall->children; i++)
        syscall(SYS_write, wall->drivers[i].wake_fd, &one, sizeof one);
}

int stint_wall_destroy(stint_wall *wall)
{
    if (sti_process_is_partial())
        return ENOTSUP;
    if (wall == NULL)
        return 0;
    if (wall->is_parents)
        return ENOTSUP;
    stint_pool *pool = atomic_load_explicit(&wall->pool, memory_order_acquire);
    if (sti_continuation_is_running() || (pool != NULL && sti_worker_of(pool) != NULL))
        return EDEADLK;
    atomic_store_explicit(&wall->ending, true, memory_order_release);
    wake_drivers(wall);
    int error = stint_pool_destroy(pool);
    if (error != 0)
        return error;
    sti_wall_free_left(wall);
    for (unsigned i = 0; wall->drivers != NULL && i < wall->children; i++)
        sti_wall_drop_child(&wall->drivers[i]);
    end_spares(wall);
    end_processes(wall);
    wall_take_off_list(wall);
    free_wall(wall);
    return 0;
}

/* --- Its numbers. --- */

/* Each template has said its number; the last one that did is the one that is. Under the lock. */
static void read_template_pid(stint_wall *wall)
{
    struct sti_wall_message message;
    while (sti_wall_receive(wall->control, &message, NULL, NULL, false) == 0) {
        if (message.kind == STI_WALL_READY)
            wall->template_pid = message.ready.error == 0 ? message.ready.pid : 0;
    }
}

int stint_wall_read(stint_wall *wall, stint_wall_statistics *statistics)
{
    if (sti_process_is_partial())
        return ENOTSUP;
    if (wall == NULL || statistics == NULL)
        return EINVAL;
    if (wall->is_parents)
        return ENOTSUP;
    sti_real_mutex_lock(&list_lock);
    read_template_pid(wall);
    const stint_wall_statistics now = {
        .size = sizeof now,
        .running = atomic_load_explicit(&wall->running, memory_order_acquire), /* first: what runs has been counted */
        .tasks = atomic_load_explicit(&wall->tasks, memory_order_relaxed),
        .children = atomic_load_explicit(&wall->started, memory_order_relaxed),
        .killed = atomic_load_explicit(&wall->killed, memory_order_relaxed),
        .crashed = atomic_load_explicit(&wall->crashed, memory_order_relaxed),
        .retried = atomic_load_explicit(&wall->retried, memory_order_relaxed),
        .spare = wall->spare_count,
        .template_pid = wall->template_pid,
    };
    sti_real_mutex_unlock(&list_lock);
    return sti_sized_out(statistics, STI_SIZED_UP_TO(stint_wall_statistics, template_pid), &now, sizeof now);
}
