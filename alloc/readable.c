/* SPDX-License-Identifier: MIT
 *
 * Reading what may be unreadable; see readable.h. Any thread. To ask for each page costs more than to read it, so nobody
 * asks until a page has been forbidden. */
#include "readable.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/uio.h>
#include <unistd.h>

static atomic_bool forbidden;

void sti_readable_no_more(void)
{
    /* seq_cst, before the page is: a scan that begins later sees it. */
    atomic_store_explicit(&forbidden, true, memory_order_seq_cst);
}

bool sti_readable_all(void)
{
    return __builtin_expect(!atomic_load_explicit(&forbidden, memory_order_seq_cst), 1);
}

long sti_readable_copy(void *to, uintptr_t from, size_t size)
{
    struct iovec here = { .iov_base = to, .iov_len = size };
    struct iovec there = { .iov_base = (void *)from, .iov_len = size };
    int saved_errno = errno;
    ssize_t copied = process_vm_readv(getpid(), &here, 1, &there, 1, 0);
    if (copied < 0 && errno == EFAULT)
        copied = 0;
    errno = saved_errno;
    return copied;
}
