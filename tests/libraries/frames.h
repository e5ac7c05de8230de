/* SPDX-License-Identifier: MIT
 *
 * Whose frames are left, by libgcc's own walk: nothing here asks the library that is tested. */
#ifndef LIBRARIES_FRAMES_H
#define LIBRARIES_FRAMES_H

/* Before the first task. */
void frames_start(void);

/* In a task's function: its frames begin here. */
void frames_begin(void);

/* They are about to be left, down to there: note each that is no frame of the program's or of libstint's. */
void frames_look(void);

/* How many have been left so, of which module the last was, and how often frames were looked at. */
unsigned long frames_foreign(const char **module);
unsigned long frames_looked_at(void);

#endif
