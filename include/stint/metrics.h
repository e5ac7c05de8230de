/* SPDX-License-Identifier: MIT
 *
 * What the process's tasks do, as text for a monitoring system: OpenMetrics 1.0, which Prometheus and those that
 * understand it scrape (https://prometheus.io/docs/specs/om/open_metrics_spec/). docs/tracing.md says what each metric
 * means, and what to ask. */
#ifndef STINT_METRICS_H
#define STINT_METRICS_H

#include <stint/api.h>

STINT_BEGIN_DECLS

/* Write all metrics of the process to a descriptor, which stays open: for every pool, labelled by its name (a second
 * one of the same name is "name#2" as long as both live); for accounts, by theirs; and for the process. To be sent as
 * application/openmetrics-text; version=1.0.0; charset=utf-8.
 *
 * Each number is right by itself, at some moment during the call, and no counter ever shrinks while what it is labelled
 * by lives. A task is counted when it has ended, before its future is ready; by stint_run, before that returns. Pools
 * that are being made or destroyed meanwhile may be left out.
 *
 * The first 255 names of accounts get labels of their own, each for all accounts of that name, one after the other.
 * What has another name, or none, is counted with the account that it lies in, and if it lies in none, as "other". Of
 * names 127 bytes count, and in them what is not UTF-8 is replaced.
 *
 * Waits as write() does where the descriptor blocks; holds no lock of the library's meanwhile. Allocates nothing in a
 * task's heap, and charges nothing to it.
 *
 * 0; ENOMEM: nothing was written; ECANCELED: the calling task, in STINT_FAIL, is to stop, and nobody reads; and
 * whatever write() reports (EBADF, ENOSPC, EFBIG, EAGAIN, EPIPE where SIGPIPE is ignored or blocked, and so on): then a
 * part has been written, without the "# EOF" that ends a whole one. Any thread, in tasks too, where an interrupt that
 * comes meanwhile waits for the end of the call, but where write() would wait for a reader. */
STINT_API int stint_metrics_write(int fd);

STINT_END_DECLS

#endif
