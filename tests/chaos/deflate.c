/* SPDX-License-Identifier: MIT
 *
 * zlib: some text is compressed in pieces and unpacked again. Keeps nothing outside of its streams. */
#include "library.h"

#include <stdio.h>
#include <stdlib.h>
#include <zlib.h>

#define TEXT 6144
#define PIECE 1000

static char text[TEXT];

static void prepare(void)
{
    size_t length = 0;
    for (unsigned i = 0; length + 1 < sizeof text; i++)
        length +=
            (size_t)snprintf(text + length, sizeof text - length, "line %u of the text, %u; ", i, i * i * 2654435u);
    for (size_t i = 0; i < sizeof text; i += 97)
        text[i] = (char)(i * 31);
}

/* Gives the packed text to be freed; Z_OK with it. */
static int pack(int level, unsigned char **packed, size_t *size)
{
    z_stream stream = { .next_in = (unsigned char *)text };
    int result = deflateInit(&stream, level);
    if (result != Z_OK)
        return result;
    unsigned long room = deflateBound(&stream, sizeof text) + 64;
    *packed = malloc(room);
    stream.next_out = *packed;
    stream.avail_out = *packed != NULL ? (unsigned)room : 0;
    result = *packed != NULL ? Z_OK : Z_MEM_ERROR;
    for (size_t done = 0; result == Z_OK && done < sizeof text; done += PIECE) {
        size_t left = sizeof text - done;
        stream.avail_in = (unsigned)(left < PIECE ? left : PIECE);
        result = deflate(&stream, left <= PIECE ? Z_FINISH : Z_NO_FLUSH);
        stint_checkpoint(); /* zlib itself allocates at the beginning only */
    }
    *size = stream.total_out;
    deflateEnd(&stream);
    return result == Z_STREAM_END ? Z_OK : result;
}

static int unpack(unsigned char *packed, size_t size, uint64_t *sum)
{
    z_stream stream = { .next_in = packed, .avail_in = (unsigned)size };
    int result = inflateInit(&stream);
    while (result == Z_OK) {
        unsigned char out[PIECE];
        stream.next_out = out;
        stream.avail_out = sizeof out;
        result = inflate(&stream, Z_NO_FLUSH);
        chaos_add(sum, out, sizeof out - stream.avail_out);
        stint_checkpoint();
    }
    inflateEnd(&stream);
    return result == Z_STREAM_END ? Z_OK : result;
}

static int run(unsigned variant, uint64_t *sum)
{
    unsigned char *packed = NULL;
    size_t size = 0;
    int result = pack((int)variant + 1, &packed, &size);
    if (result == Z_OK) {
        chaos_add_number(sum, size);
        result = unpack(packed, size, sum);
    }
    free(packed);
    return result;
}

static const char *version(void)
{
    return zlibVersion();
}

const struct chaos_library chaos_deflate = {
    .name = "zlib",
    .modes = CHAOS_ANY_MODE,
    .preemptible = true,
    .prepare = prepare,
    .run = run,
    .modules = "libz",
    .version = version,
};
