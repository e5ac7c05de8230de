/* SPDX-License-Identifier: MIT
 *
 * The same C function, compiled with -fexceptions, without, and without any unwind table. */
#ifndef TESTS_CPP_FRAMES_H
#define TESTS_CPP_FRAMES_H

#ifdef __cplusplus
extern "C" {
#endif

/* The test's own: the cleanup calls it with 'c', at a normal end with 'd'. */
void unwind_note(int what);

/* Call inner with a cleanup pending. */
void frame_with_tables(void (*inner)(void));
void frame_without_tables(void (*inner)(void));
void frame_without_any(void (*inner)(void));

#ifdef __cplusplus
}
#endif

#endif
