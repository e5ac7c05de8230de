/* SPDX-License-Identifier: MIT
 *
 * The server's look at what a connection sends, before anybody takes it. However the bytes come in pieces, the same
 * ones are let through, and the same fault is found behind them; nothing behind a fault is let through. */
#include "framing.h"

#include "fuzz.h"

struct seen {
    size_t taken, heads;
    const char *fault;
};

/* As the server does: what has come and was not taken is looked at anew when more has come. */
static struct seen look(const char *bytes, size_t size, const uint8_t *pieces, size_t piece_count)
{
    struct framing framing = { .fault = NULL };
    size_t taken = 0;
    size_t come = 0;
    for (size_t i = 0; come < size && framing.fault == NULL; i++) {
        size_t piece = piece_count > 0 ? (size_t)pieces[i % piece_count] + 1 : size;
        come = size - come < piece ? size : come + piece;
        size_t good;
        while ((good = framing_look(&framing, bytes + taken, come - taken)) > 0) {
            fuzz_require(good <= come - taken);
            framing_take(&framing, good);
            taken += good;
        }
    }
    return (struct seen){ taken, framing.heads, framing.fault };
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t pieces = size > 0 ? data[0] % 8 : 0;
    if (size < 1 + pieces)
        return 0;
    size_t length = size - 1 - pieces;
    char *bytes = fuzz_text(data + 1 + pieces, length);
    struct seen whole = look(bytes, length, NULL, 0);
    struct seen cut = look(bytes, length, data + 1, pieces);
    fuzz_require(whole.heads == cut.heads);
    fuzz_require(whole.fault == cut.fault);
    fuzz_require(whole.taken == cut.taken);
    free(bytes);
    return 0;
}
