/* SPDX-License-Identifier: MIT
 *
 * Tcl: its blocks come from pools of the thread's, its objects and literals are shared and kept, and a refused
 * allocation ends the process. */
#include "library.h"

#include <stdio.h>
#include <tcl.h>

static const char script[] = "proc fold {list} { set sum 0; foreach item $list { incr sum $item }; return $sum }\n"
                             "set items {}\n"
                             "for {set i 0} {$i < 200} {incr i} { lappend items [expr {($i * $seed) % 97}] }\n"
                             "array set seen {}\n"
                             "foreach item $items { incr seen($item) }\n"
                             "set text \"\"\n"
                             "foreach key [lsort -integer [array names seen]] { append text \"$key=$seen($key);\" }\n"
                             "regsub -all {([0-9]+)=} $text {<\\1>} text\n"
                             "dict set made sum [fold $items]\n"
                             "dict set made text [string toupper $text]\n"
                             "format {%s %s} [dict get $made sum] [dict get $made text]\n";

static int work(uint32_t seed, uint64_t *sum)
{
    char begin[64];
    Tcl_Interp *interpreter = Tcl_CreateInterp();
    snprintf(begin, sizeof begin, "set seed %u", (unsigned)seed + 1);
    int error = Tcl_Eval(interpreter, begin);
    if (error == TCL_OK)
        error = Tcl_Eval(interpreter, script);
    if (error == TCL_OK)
        sum_text(sum, Tcl_GetStringResult(interpreter));
    Tcl_DeleteInterp(interpreter);
    return error == TCL_OK ? 0 : EBADMSG;
}

const struct library library_tcl = { "Tcl", { NULL }, work };
