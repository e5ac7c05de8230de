#!/bin/sh
# SPDX-License-Identifier: MIT
# needs_walls.sh LACK-OF-WALLS COMMAND...: the command, unless no wall can be made here.
"$1" || exit
shift
exec "$@"
