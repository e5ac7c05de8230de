/* SPDX-License-Identifier: MIT
 *
 * Nettle: hashes, a cipher and an authenticator. It allocates nothing. */
#include "library.h"

#include <nettle/aes.h>
#include <nettle/cbc.h>
#include <nettle/hmac.h>
#include <nettle/sha2.h>
#include <nettle/version.h>
#include <stdio.h>

static int run(unsigned variant, uint64_t *sum)
{
    uint8_t text[256], digest[SHA256_DIGEST_SIZE], vector[AES_BLOCK_SIZE] = { (uint8_t)variant };
    struct aes128_ctx *cipher = malloc(sizeof *cipher);
    struct hmac_sha256_ctx *code = malloc(sizeof *code);
    int error = cipher != NULL && code != NULL ? 0 : -1;
    memset(text, (int)variant + 1, sizeof text);
    for (unsigned i = 0; i < 20 && error == 0; i++) {
        aes128_set_encrypt_key(cipher, text);
        cbc_encrypt(cipher, (nettle_cipher_func *)aes128_encrypt, AES_BLOCK_SIZE, vector, sizeof text, text, text);
        hmac_sha256_set_key(code, 16, text);
        hmac_sha256_update(code, sizeof text, text);
        hmac_sha256_digest(code, sizeof digest, digest);
        chaos_add(sum, digest, sizeof digest);
        error = chaos_pass(1);
    }
    free(code);
    free(cipher);
    return error;
}

static const char *version(void)
{
    static char text[16];
    snprintf(text, sizeof text, "%d.%d", nettle_version_major(), nettle_version_minor());
    return text;
}

const struct chaos_library CHAOS_ONE = {
    .name = "Nettle",
    .modes = CHAOS_ANY_MODE,
    .preemptible = true,
    .run = run,
    .modules = "libnettle",
    .version = version,
};
