#!/bin/sh
# SPDX-License-Identifier: MIT
# escapes.sh PROGRAM: what a task takes otherwise than by malloc is bounded, again and again, and the process lives.
[ "$("$1" threads streams walker threads walker)" = "threads: error, memory-limit
streams: error, memory-limit
walker: error, stack
threads: error, memory-limit
walker: error, stack" ]
