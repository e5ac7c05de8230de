/* SPDX-License-Identifier: MIT
 *
 * Probes: places that a tracer outside (bpftrace, perf, SystemTap, gdb) can stop at, by <sys/sdt.h>. One that nobody
 * looks at is a nop; where the header is missing, or with -Dprobes=disabled, nothing at all. Their arguments are told
 * in a note of the library's file, and are the registers or words that have the values anyway: pass no expression that
 * is computed for it. docs/tracing.md lists them. Any thread. */
#ifndef STI_ALLOC_BASE_PROBE_H
#define STI_ALLOC_BASE_PROBE_H

#if STI_PROBES
#include <sys/sdt.h>

#define STI_PROBE1(name, a) DTRACE_PROBE1(stint, name, a)
#define STI_PROBE2(name, a, b) DTRACE_PROBE2(stint, name, a, b)
#define STI_PROBE3(name, a, b, c) DTRACE_PROBE3(stint, name, a, b, c)
#else
#define STI_PROBE1(name, a) ((void)sizeof(a))
#define STI_PROBE2(name, a, b) ((void)(sizeof(a) + sizeof(b)))
#define STI_PROBE3(name, a, b, c) ((void)(sizeof(a) + sizeof(b) + sizeof(c)))
#endif

#endif
