/* SPDX-License-Identifier: MIT
 *
 * Who is told of stopped tasks; see reporting.h. */
#include "reporting.h"

const struct sti_reporting_hooks *sti_reporting_hooks;

void sti_reporting_register(const struct sti_reporting_hooks *hooks)
{
    sti_reporting_hooks = hooks;
}
