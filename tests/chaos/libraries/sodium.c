/* SPDX-License-Identifier: MIT
 *
 * libsodium: a box is closed and opened, a message hashed and signed; secrets lie in guarded pages. */
#include "library.h"

#include <sodium.h>

static int run(unsigned variant, uint64_t *sum)
{
    unsigned char message[200], closed[200 + crypto_secretbox_MACBYTES], hash[32], signature[crypto_sign_BYTES];
    unsigned char seed[crypto_sign_SEEDBYTES], public_key[crypto_sign_PUBLICKEYBYTES];
    const unsigned char nonce[crypto_secretbox_NONCEBYTES] = { (unsigned char)variant };
    unsigned char secret_key[crypto_sign_SECRETKEYBYTES];
    if (sodium_init() < 0)
        return -1;
    unsigned char *key = sodium_malloc(crypto_secretbox_KEYBYTES);
    if (key == NULL)
        return -1;
    memset(message, (int)variant + 1, sizeof message);
    memset(key, (int)variant + 7, crypto_secretbox_KEYBYTES);
    memset(seed, (int)variant, sizeof seed);
    int error = crypto_secretbox_easy(closed, message, sizeof message, nonce, key);
    if (error == 0)
        error = crypto_secretbox_open_easy(message, closed, sizeof closed, nonce, key);
    sodium_free(key);
    stint_checkpoint();
    if (error == 0)
        error = crypto_generichash(hash, sizeof hash, closed, sizeof closed, NULL, 0);
    if (error == 0)
        error = crypto_sign_seed_keypair(public_key, secret_key, seed);
    if (error == 0)
        error = crypto_sign_detached(signature, NULL, hash, sizeof hash, secret_key);
    chaos_add(sum, hash, sizeof hash);
    chaos_add(sum, signature, sizeof signature);
    return error;
}

static void ready(void)
{
    (void)!sodium_init();
}

const struct chaos_library CHAOS_ONE = {
    .name = "libsodium",
    .modes = CHAOS_ANY_MODE,
    .preemptible = true,
    .ready = ready,
    .run = run,
    .modules = "libsodium",
    .version = sodium_version_string,
};
