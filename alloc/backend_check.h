/* SPDX-License-Identifier: MIT
 *
 * Is the mimalloc that runs the one that this library was compiled for? Any thread. */
#ifndef STI_ALLOC_BACKEND_CHECK_H
#define STI_ALLOC_BACKEND_CHECK_H

/* 0; ENOTSUP: the loader found one that is older than the header that this library was compiled with, or of another major
 * version: what the header says of its heaps is not true of it. A newer one is what its packagers call compatible, so that
 * an upgrade needs no new build. */
int sti_backend_check(void);

#endif
