/* SPDX-License-Identifier: MIT
 *
 * The recipe for OpenSSL, as docs/recipes.md gives it: its memory is the process's, no interrupt leaves its functions,
 * and what a task makes is freed by guards. Then a task that hashes, encrypts and makes contexts may be stopped
 * anywhere, and nothing is left. */
#include "../support.h"

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>

#define RUNS 3000

/* Blocks of OpenSSL outlive a rollback: it links them into lists and tables of the process. */
static void *kept_malloc(size_t size, const char *file, int line)
{
    (void)file;
    (void)line;
    stint_keep_begin();
    void *block = malloc(size);
    stint_keep_end();
    return block;
}

static void *kept_realloc(void *block, size_t size, const char *file, int line)
{
    (void)file;
    (void)line;
    stint_keep_begin();
    void *grown = realloc(block, size);
    stint_keep_end();
    return grown;
}

static void plain_free(void *block, const char *file, int line)
{
    (void)file;
    (void)line;
    free(block);
}

static void free_digest(void *context)
{
    EVP_MD_CTX_free(context);
}

static void free_cipher(void *context)
{
    EVP_CIPHER_CTX_free(context);
}

static void free_ssl(void *context)
{
    SSL_CTX_free(context);
}

static int hash(unsigned char digest[EVP_MAX_MD_SIZE])
{
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    stint_guard guard;
    stint_guard_push(&guard, free_digest, context);
    int good = context != NULL && EVP_DigestInit_ex(context, EVP_sha256(), NULL) == 1;
    for (int i = 0; good && i < 20; i++) {
        void *text = keep(calloc(1, 500)); /* the task's own: where it may be stopped */
        good = text != NULL && EVP_DigestUpdate(context, text, 500) == 1;
        free(text);
    }
    good = good && EVP_DigestFinal_ex(context, digest, NULL) == 1;
    stint_guard_pop(&guard, true);
    return good ? 0 : EIO;
}

static int encrypt(void)
{
    static const unsigned char key[32] = "key";
    EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
    stint_guard guard;
    stint_guard_push(&guard, free_cipher, context);
    int good = context != NULL && EVP_EncryptInit_ex(context, EVP_aes_256_gcm(), NULL, key, key) == 1;
    for (int i = 0; good && i < 20; i++) {
        unsigned char *text = keep(calloc(1, 500));
        int length;
        good = text != NULL && EVP_EncryptUpdate(context, text, &length, text, 400) == 1;
        free(text);
    }
    stint_guard_pop(&guard, true);
    return good ? 0 : EIO;
}

static int make_context(void)
{
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    stint_guard guard;
    stint_guard_push(&guard, free_ssl, context);
    int good = context != NULL && SSL_CTX_set_cipher_list(context, "no such cipher") == 0 &&
               SSL_CTX_set_cipher_list(context, "HIGH") == 1;
    ERR_clear_error();
    free(keep(malloc(1000)));
    stint_guard_pop(&guard, true);
    return good ? 0 : EIO;
}

static int use_openssl(void *argument, void **value)
{
    (void)value;
    int error = hash(argument);
    if (error == 0)
        error = encrypt();
    return error == 0 ? make_context() : error;
}

TEST(tasks_stopped_anywhere_leave_openssl_whole_and_nothing_behind)
{
    unsigned char right[EVP_MAX_MD_SIZE] = { 0 };
    unsigned char digest[EVP_MAX_MD_SIZE] = { 0 };
    assert_ok(run_task(use_openssl, right, NULL));
    stint_outcome whole = run_task(use_openssl, right, NULL);
    assert_ok(whole);

    uint64_t random = 42;
    size_t before = 0;
    for (int i = 0; i < RUNS; i++) {
        stint_options options = STINT_OPTIONS_INIT;
        options.budget.allocation = 1 + random_below(&random, whole.usage.allocated - 1);
        assert_limit_passed(run_task(use_openssl, digest, &options));
        if (i == RUNS / 10)
            before = resident();
    }
    assert_in_range(resident(), 0, before + 4 * MIB);
    assert_ok(run_task(use_openssl, digest, NULL));
    assert_memory_equal(digest, right, sizeof digest);
}

int main(void)
{
    if (CRYPTO_set_mem_functions(kept_malloc, kept_realloc, plain_free) != 1 || OPENSSL_init_ssl(0, NULL) != 1)
        return 1;
    return run_all_tests(NULL, NULL);
}
