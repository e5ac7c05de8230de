#!/bin/sh
# SPDX-License-Identifier: MIT
# escapes.sh PROGRAM: what a task takes without malloc is bounded, again and again, and the process lives.
[ "$("$1" streams walker streams walker)" = "streams: error, memory-limit
walker: error, stack
streams: error, memory-limit
walker: error, stack" ]
