/* SPDX-License-Identifier: MIT
 *
 * The reader of reports that come out of another process, and what writes what it has read. The input is what a hostile
 * child changes of a report: whatever it does, the report can be written in all kinds, and a terminal is shown no
 * control characters. */
#include <errno.h>
#include <stint/stint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "alloc/observe/report.h"
#include "fuzz.h"

/* A report with something in each of its lists. */
static void fill(stint_report *report)
{
    memset(report, 0, sizeof *report);
    report->is_delivered = true;
    report->tripped.length = report->delivered.length = 2;
    report->tripped.frames[0] = report->delivered.frames[0] = (uintptr_t)fill;
    report->wait_count = report->point_count = report->root_count = report->holder_count = 1;
    report->waits[0] = (struct sti_report_wait){ .rule = STINT_DEFERRAL_LOCK, .at = (uintptr_t)fill, .times = 3 };
    report->points[0] = (struct sti_report_point){ .ns = 5, .held = 10, .allocated = 20 };
    report->roots[0] = (struct sti_report_root){ .address = (uintptr_t)fill, .where = "data", .module = "a module" };
    report->is_sampled = true;
    report->interval = 512;
    report->holders[0].length = 2;
    report->heap.is_taken = true;
    report->heap.class_count = report->heap.largest_count = 1;
    report->heap.bytes = 1 << 20;
    report->heap.classes[0].content_count = 1;
    report->heap.classes[0].looked_at = 4;
    report->heap.classes[0].contents[0] = (struct sti_report_contents){ .kind = STI_REPORT_STRING, .count = 4 };
}

/* Each change: where, how much of it, and what. */
static void change(stint_report *report, struct fuzz_bytes *bytes)
{
    unsigned char *at = (unsigned char *)report;
    while (bytes->left > 3) {
        uint32_t where = (uint32_t)fuzz_byte(bytes) << 8;
        where |= fuzz_byte(bytes);
        size_t length = (size_t)fuzz_byte(bytes) % 64 + 1;
        size_t offset = (size_t)where * 8 % sizeof *report;
        length = length < sizeof *report - offset ? length : sizeof *report - offset;
        length = length < bytes->left ? length : bytes->left;
        fuzz_fill(bytes, at + offset, length);
    }
}

static void check_text(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++)
        fuzz_require((unsigned char)text[i] >= ' ' || text[i] == '\n' || text[i] == '\t');
}

static void write_out(const stint_report *report, stint_report_kind kind)
{
    static char text[1 << 20];
    int file = memfd_create("report", MFD_CLOEXEC);
    fuzz_require(file >= 0);
    fuzz_require(stint_report_write(report, file, kind) == 0);
    ssize_t size = pread(file, text, sizeof text, 0);
    fuzz_require(size > 0);
    if (kind != STINT_REPORT_PPROF)
        check_text(text, (size_t)size);
    close(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static stint_report said;
    stint_report *adopted = NULL;
    struct fuzz_bytes bytes = { data, size };
    fill(&said);
    change(&said, &bytes);
    fuzz_require(sti_report_adopt(&said, sizeof said - 1, &adopted) == EPROTO);
    fuzz_require(sti_report_adopt(&said, sizeof said, &adopted) == 0);
    for (int kind = STINT_REPORT_TEXT; kind <= STINT_REPORT_PPROF; kind++)
        write_out(adopted, (stint_report_kind)kind);
    stint_report_release(adopted);
    return 0;
}
