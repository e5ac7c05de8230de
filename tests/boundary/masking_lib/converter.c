/* SPDX-License-Identifier: MIT
 *
 * A character set that calls the test's hook when it is opened, under iconv_open. It converts nothing. */
#include <gconv.h>

#include "library.h"

int gconv_init(struct __gconv_step *step);
int gconv(struct __gconv_step *step, struct __gconv_step_data *data, const unsigned char **from,
          const unsigned char *end, unsigned char **to, size_t *irreversible, int flush, int consume);

int gconv_init(struct __gconv_step *step)
{
    masking_hook();
    step->__min_needed_from = 1;
    step->__max_needed_from = 4;
    step->__min_needed_to = 1;
    step->__max_needed_to = 4;
    step->__stateful = 0;
    return __GCONV_OK;
}

int gconv(struct __gconv_step *step, struct __gconv_step_data *data, const unsigned char **from,
          const unsigned char *end, unsigned char **to, size_t *irreversible, int flush, int consume)
{
    (void)step;
    (void)data;
    (void)to;
    (void)irreversible;
    (void)flush;
    (void)consume;
    *from = end;
    return __GCONV_EMPTY_INPUT;
}
