/* SPDX-License-Identifier: MIT
 *
 * Reading the rings and writing events; see trace_write.h. The tracer's thread. */
#include "trace_write.h"

#include <errno.h>
#include <stdio.h>
#include <stint/interrupt.h>
#include <stint/stint.h>
#include <stint/task.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "alloc/platform/clock.h"
#include "alloc/platform/thread.h"
#include "alloc/platform/tracing.h"
#include "trace_text.h"

/* --- The descriptor, and the first error. ------------------------------------------------------------------------- */

/* A program that closes descriptors which are not its own may get the same number for a file of its own. */
static int trace_file_look_at(const struct sti_trace_file *file)
{
    struct stat status;
    if (fstat(file->fd, &status) != 0)
        return errno;
    return status.st_dev == file->device && status.st_ino == file->number ? 0 : EBADF;
}

static void trace_file_flush(struct sti_trace_file *file)
{
    size_t written = 0;
    if (file->error == 0 && file->length > 0)
        file->error = trace_file_look_at(file);
    while (file->error == 0 && written < file->length) {
        ssize_t count = write(file->fd, file->buffer + written, file->length - written);
        if (count > 0)
            written += (size_t)count;
        else if (count == 0 || errno != EINTR)
            file->error = count == 0 ? EIO : errno;
    }
    file->length = 0;
}

#define LONGEST_EVENT 1024

/* --- Events. ------------------------------------------------------------------------------------------------------ */

/* Write what each event begins with. The caller writes its name and the rest. */
static void begin_event(struct sti_trace_file *file, char phase, int tid)
{
    if (file->length > sizeof file->buffer - LONGEST_EVENT)
        trace_file_flush(file);
    file->events++;
    PUT(file, ",\n{\"ph\":\"");
    file->buffer[file->length++] = phase;
    put_bytes(file, file->process, file->process_length);
    trace_put_number(file, (uint64_t)tid);
}

static void begin_timed_event(struct sti_trace_file *file, char phase, int tid, uint64_t ns)
{
    begin_event(file, phase, tid);
    PUT(file, ",\"ts\":");
    trace_put_number(file, ns / 1000);
    PUT(file, ".");
    put_digits(file, ns % 1000, 3);
}

static void put_name(struct sti_trace_file *file, const char *category, const char *name)
{
    PUT(file, ",\"cat\":");
    put_word(file, category);
    PUT(file, ",\"name\":");
    trace_put_string(file, name);
}

static void put_flow(struct sti_trace_file *file, uint64_t flow, bool in, bool out)
{
    if (flow == 0 || (!in && !out))
        return;
    PUT(file, ",\"bind_id\":");
    put_hex(file, flow);
    if (in)
        PUT(file, ",\"flow_in\":true");
    if (out)
        PUT(file, ",\"flow_out\":true");
}

/* A slice of no length, which flows begin and end in. */
static void put_mark(struct sti_trace_file *file, int tid, uint64_t ns, const char *category, const char *name,
                     uint64_t flow, bool in, bool out)
{
    begin_timed_event(file, 'X', tid, ns);
    PUT(file, ",\"dur\":0");
    put_name(file, category, name);
    put_flow(file, flow, in, out);
    PUT(file, "}");
}

static void put_instant(struct sti_trace_file *file, int tid, uint64_t ns, const char *category, const char *name,
                        const char *argument, const char *value)
{
    begin_timed_event(file, 'i', tid, ns);
    PUT(file, ",\"s\":\"t\"");
    put_name(file, category, name);
    PUT(file, ",\"args\":{\"");
    put_text(file, argument);
    PUT(file, "\":");
    put_word(file, value);
    PUT(file, "}}");
}

static void put_metadata(struct sti_trace_file *file, int tid, const char *name, const char *value)
{
    begin_event(file, 'M', tid);
    put_name(file, "__metadata", name);
    PUT(file, ",\"args\":{\"name\":");
    trace_put_string(file, value);
    PUT(file, "}}");
}

static void put_argument(struct sti_trace_file *file, const char *before, uint64_t number)
{
    put_text(file, before);
    trace_put_number(file, number);
}

static void slice_put_begin(struct sti_trace_file *file, const struct sti_trace_ring *ring, const char *category,
                            const char *name, uint64_t flow)
{
    begin_timed_event(file, 'B', ring->read_id, ring->read_ns);
    put_name(file, category, name);
    put_flow(file, flow, true, false);
    PUT(file, "}");
}

/* The flow from a task's submission in this trace, which is written now unless it has been before; 0: there is none. */
static uint64_t flow_put_submission(struct sti_trace_file *file, const struct sti_trace_record *record)
{
    unsigned submitter = (unsigned)record->number;
    int tid = (int)(submitter & STI_TRACE_THREAD_MASK);
    if ((submitter & ~STI_TRACE_THREAD_MASK) != sti_trace_submitter_in(file->epoch) ||
        record->number_of < file->begun_ns || (tid == 0 && file->closing))
        return 0;
    uint64_t flow = sti_trace_flow((const void *)(uintptr_t)record->flow, record->number_of);
    if (tid != 0)
        put_mark(file, tid, record->number_of, "task", "submit", flow, false, true);
    return flow;
}

static void slice_put_end(struct sti_trace_file *file, const struct sti_trace_ring *ring)
{
    begin_timed_event(file, 'E', ring->read_id, ring->read_ns);
}

static void put_task_end(struct sti_trace_file *file, const struct sti_trace_ring *ring,
                         const struct sti_trace_record *record)
{
    if (record->bytes > 0) {
        char bytes[24];
        snprintf(bytes, sizeof bytes, "%llu", (unsigned long long)record->bytes);
        put_instant(file, ring->read_id, ring->read_ns, "memory", "commit", "bytes", bytes);
    }
    slice_put_end(file, ring);
    PUT(file, ",\"args\":{\"outcome\":");
    put_word(file, stint_status_name((stint_status)record->status));
    PUT(file, ",\"reason\":");
    put_word(file, stint_reason_name((stint_reason)record->reason));
    PUT(file, ",\"error\":");
    if (record->number < 0)
        PUT(file, "-");
    trace_put_number(file, (uint64_t)(record->number < 0 ? -(int64_t)record->number : record->number));
    put_argument(file, ",\"allocated_bytes\":", record->allocated);
    put_argument(file, ",\"peak_bytes\":", record->peak);
    put_argument(file, ",\"committed_bytes\":", record->bytes);
    put_argument(file, ",\"queued_ns\":", record->queued);
    put_argument(file, ",\"samples\":", record->samples);
    put_argument(file, ",\"deferred\":", record->deferred);
    PUT(file, "}}");
}

/* --- Rings. ------------------------------------------------------------------------------------------------------- */

static void end_unfinished(struct sti_trace_file *file, struct sti_trace_ring *ring, unsigned depth)
{
    for (; ring->read_open > depth; ring->read_open--) {
        slice_put_end(file, ring);
        PUT(file, ",\"args\":{\"unfinished\":true}}");
    }
}

static void read_thread(struct sti_trace_file *file, struct sti_trace_ring *ring, const struct sti_trace_record *record)
{
    if (ring->read_epoch == file->epoch)
        end_unfinished(file, ring, 0);
    ring->read_epoch = record->number_of == file->epoch ? file->epoch : 0;
    ring->read_open = 0;
    ring->read_id = record->number;
    if (ring->read_epoch == file->epoch)
        put_metadata(file, ring->read_id, "thread_name", record->name);
}

/* The slice is open before its end comes, and all that lies in it has ended. */
static void record_read_end(struct sti_trace_file *file, struct sti_trace_ring *ring,
                            const struct sti_trace_record *record)
{
    end_unfinished(file, ring, record->depth + 1U);
    ring->read_open = record->depth;
    if (record->mark == STI_TRACE_END_TASK) {
        put_task_end(file, ring, record);
        return;
    }
    slice_put_end(file, ring);
    if (record->mark == STI_TRACE_END_ROLLBACK) {
        put_argument(file, ",\"args\":{\"kept_bytes\":", record->flow);
        PUT(file, "}");
    }
    PUT(file, "}");
    if (record->mark == STI_TRACE_END_PARK && record->flow != 0)
        put_mark(file, ring->read_id, ring->read_ns, "worker", "woken", record->flow, !file->closing, false);
}

static void record_read_begin(struct sti_trace_file *file, struct sti_trace_ring *ring,
                              const struct sti_trace_record *record)
{
    char name[STI_TRACE_NAME + sizeof "rollback of "];
    const char *task = record->name[0] != '\0' ? record->name : "a task";
    end_unfinished(file, ring, record->depth);
    ring->read_open = record->depth + 1U;
    switch (record->mark) {
    case STI_TRACE_BEGIN_FORK:
        if (record->flow != 0)
            put_mark(file, record->number, ring->read_ns, "fork", "stolen from here", record->flow, false, true);
        snprintf(name, sizeof name, "fork of %s", task);
        slice_put_begin(file, ring, "fork", name, record->flow);
        break;
    case STI_TRACE_BEGIN_ROLLBACK:
        snprintf(name, sizeof name, "rollback of %s", task);
        slice_put_begin(file, ring, "memory", name, 0);
        break;
    case STI_TRACE_BEGIN_PARK:
        slice_put_begin(file, ring, "worker", "parked", 0);
        break;
    default:
        slice_put_begin(file, ring, "task", record->name, flow_put_submission(file, record));
    }
}

static void write_lost(struct sti_trace_file *file, struct sti_trace_ring *ring, uint64_t in_all)
{
    if (in_all <= ring->read_lost)
        return;
    uint64_t lost = in_all - ring->read_lost;
    ring->read_lost += lost;
    file->lost += lost;
    if (ring->read_epoch != file->epoch)
        return;
    char number[24];
    snprintf(number, sizeof number, "%llu", (unsigned long long)lost);
    put_instant(file, ring->read_id, ring->read_ns, "trace", "lost", "events", number);
}

static void put_interrupt(struct sti_trace_file *file, const struct sti_trace_ring *ring, const char *name,
                          const char *argument, const char *value)
{
    put_instant(file, ring->read_id, ring->read_ns, "interrupt", name, argument, value);
}

static void read_mark(struct sti_trace_file *file, struct sti_trace_ring *ring, const struct sti_trace_record *record)
{
    static const char *const ways[] = { [STINT_JUMP] = "jump", [STINT_FAIL] = "fail", [STINT_UNWIND] = "unwind" };
    uint64_t flow;
    switch (record->mark) {
    case STI_TRACE_WAKE:
        put_mark(file, ring->read_id, ring->read_ns, "worker", "wake", record->flow, false, true);
        break;
    case STI_TRACE_STEAL:
        flow = flow_put_submission(file, record);
        put_mark(file, ring->read_id, ring->read_ns, "task", "steal", flow, true, true);
        break;
    case STI_TRACE_LOST:
        write_lost(file, ring, record->flow);
        break;
    case STI_TRACE_TRIPPED:
        put_interrupt(file, ring, "tripped", "reason", stint_reason_name((stint_reason)record->number));
        break;
    case STI_TRACE_WARNED:
        put_interrupt(file, ring, "warned", "reason", stint_reason_name((stint_reason)record->number));
        break;
    case STI_TRACE_DEFERRED:
        put_interrupt(file, ring, "deferred", "rule", stint_deferral_name((stint_deferral)record->number));
        break;
    default:
        put_interrupt(file, ring, "delivered", "way", ways[record->number]);
    }
}

static void read_record(struct sti_trace_file *file, struct sti_trace_ring *ring, const struct sti_trace_record *record)
{
    if (record->mark != STI_TRACE_THREAD && ring->read_epoch != file->epoch)
        return;
    /* The clocks of scopes may be a little off (clock.h). */
    if (record->ns > ring->read_ns)
        ring->read_ns = record->ns;
    if (record->mark == STI_TRACE_THREAD)
        read_thread(file, ring, record);
    else if (record->mark < STI_TRACE_THREAD)
        read_mark(file, ring, record);
    else if (record->mark < STI_TRACE_END_TASK)
        record_read_begin(file, ring, record);
    else
        record_read_end(file, ring, record);
}

/* So many at most. The writer has room again when they have been read. */
static size_t drain_ring(struct sti_trace_file *file, struct sti_trace_ring *ring, size_t most)
{
    uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_acquire);
    uint64_t end = head - tail > most ? tail + most : head;
    size_t count = end - tail;
    for (; tail != end; tail++)
        read_record(file, ring, &ring->records[tail % STI_TRACE_RECORDS]);
    atomic_store_explicit(&ring->tail, tail, memory_order_release);
    if (tail == head)
        write_lost(file, ring, sti_counter_read(&ring->lost));
    return count;
}

static struct sti_trace_ring *trace_ring_of(const struct sti_thread *thread)
{
    return atomic_load_explicit(&thread->trace, memory_order_acquire);
}

/* Each ring in its turn, from where it has ended before. */
void sti_trace_file_drain(struct sti_trace_file *file, size_t most)
{
    const struct sti_thread *first = file->next != NULL ? file->next : sti_thread_first();
    const struct sti_thread *thread = first;
    size_t left = most;
    while (thread != NULL) {
        if (trace_ring_of(thread) != NULL)
            left -= drain_ring(file, trace_ring_of(thread), left);
        if (left == 0)
            break;
        thread = thread->next != NULL ? thread->next : sti_thread_first();
        if (thread == first)
            break;
    }
    file->next = thread != NULL && thread->next != NULL ? thread->next : NULL;
    trace_file_flush(file);
}

/* --- The file. ---------------------------------------------------------------------------------------------------- */

int sti_trace_file_begin(struct sti_trace_file *file, int fd, unsigned epoch)
{
    struct stat status;
    if (fstat(fd, &status) != 0)
        return errno;
    memset(file, 0, sizeof *file);
    file->fd = fd;
    file->device = status.st_dev;
    file->number = status.st_ino;
    file->pid = getpid();
    file->epoch = epoch;
    file->begun_ns = sti_clock_now();
    file->homeless = atomic_load_explicit(&sti_trace_homeless, memory_order_relaxed);
    file->process_length = (size_t)sprintf(file->process, "\",\"pid\":%d,\"tid\":", file->pid);
    for (const struct sti_thread *thread = sti_thread_first(); thread != NULL; thread = thread->next) {
        struct sti_trace_ring *ring = trace_ring_of(thread);
        if (ring != NULL)
            ring->read_lost = atomic_load_explicit(&ring->lost, memory_order_relaxed);
    }
    return 0;
}

void sti_trace_file_write_head(struct sti_trace_file *file)
{
    PUT(file, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n{\"ph\":\"M\",\"pid\":");
    trace_put_number(file, (uint64_t)file->pid);
    PUT(file, ",\"name\":\"process_name\",\"args\":{\"name\":");
    trace_put_string(file, program_invocation_short_name);
    PUT(file, "}}");
    trace_file_flush(file);
}

void sti_trace_file_write_end(struct sti_trace_file *file)
{
    uint64_t now = sti_clock_now();
    for (const struct sti_thread *thread = sti_thread_first(); thread != NULL; thread = thread->next) {
        struct sti_trace_ring *ring = trace_ring_of(thread);
        if (ring == NULL || ring->read_epoch != file->epoch)
            continue;
        if (now > ring->read_ns)
            ring->read_ns = now;
        end_unfinished(file, ring, 0);
        ring->read_epoch = 0;
    }
    uint64_t homeless = atomic_load_explicit(&sti_trace_homeless, memory_order_relaxed) - file->homeless;
    PUT(file, "\n],\"otherData\":{\"producer\":\"stint ");
    put_text(file, stint_version());
    put_argument(file, "\",\"written_events\":", file->events);
    put_argument(file, ",\"lost_events\":", file->lost + homeless);
    PUT(file, "}}\n");
    trace_file_flush(file);
}
