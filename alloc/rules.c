/* SPDX-License-Identifier: MIT
 *
 * The switches of the rules; see rules.h. */
#include "rules.h"

#include <stdint.h>

#include "hold.h"

unsigned sti_rules_off;

bool sti_rules_hold(const struct sti_holds *holds)
{
    static const unsigned rules[] = {
        [STI_HOLD_LOCK] = STI_RULE_LOCK,
        [STI_HOLD_ONCE] = STI_RULE_ONCE,
        [STI_HOLD_STATIC] = STI_RULE_STATIC,
        [STI_HOLD_SEMAPHORE] = STI_RULE_SEMAPHORE,
    };
    if (sti_rules_off == 0)
        return sti_hold_any(holds);
    if (holds->unnamed > 0 && sti_rule_is_on(STI_RULE_LOCK)) /* most of them are locks */
        return true;
    for (unsigned i = 0; i < holds->named; i++) {
        if (sti_rule_is_on(rules[(uintptr_t)holds->objects[i] & STI_HOLD_KINDS]))
            return true;
    }
    return false;
}
