/* SPDX-License-Identifier: MIT
 *
 * OpenSSL: at first use it reads its configuration, makes its providers, tables of names and random generators; and
 * what it fetches by name is cached for the process. Behind a wall the configuration cannot be read, which it lives
 * with. */
#include "library.h"

#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>

#define PLAIN 4096

/* A signature of this sentence, by a key that is gone. */
static const char public_key[] = "-----BEGIN PUBLIC KEY-----\n"
                                 "MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAwblnLWtGesiBDdfJY3OZ\n"
                                 "TJCKmWf/Zohx2nOLm/Kl4VX9oiQnYXBSDuF7N4+yGXQ7emy2qmt0s+wVHr857Nim\n"
                                 "XYyQcVk/ujvkikUJbsH8zJgsswW7UI1IB05UTT7RwoleowiNEsn2ORF+/FXqDPzL\n"
                                 "zkqu2cH4raYdGKw5L7UUae6fra5+V+YBFkIsnhlJeOaJi1nkDey6OUBB0Vvb9xw+\n"
                                 "19Cwhqs5Djz14FO6oZkojx1ncXRGObtem06sITcB5Gezk7fJJ3YN9EBqSdmCIQyP\n"
                                 "sLD2U5oqchPzRwnbU9RvYchWmgbXvgFkkhEgXGxWbU8FIBoEUrpocBUTFZtptEzK\n"
                                 "4wIDAQAB\n"
                                 "-----END PUBLIC KEY-----\n";
static const char sentence[] = "stint walled libraries";
static const char signature_in_hex[] = "95beb14a2068cd83a944c911d9f078c9cb96ed1a040c66bdb408c94aa12fbf5a"
                                       "473d4ece95a5da3d0e1291feb56e8633254c15251af01f9578a27f64f2ce4c7e"
                                       "044d9553a31fddb8ae38fcc538f7a33ca0447a5afa20d009f282fd7d22a472f8"
                                       "942f159efe6c9b0634eb763995ed19fd5697fea586c2386edc4f26ff90f900f8"
                                       "863758e2025761c38eae3dff8ee428bdee33d09801b70a4c5408c589cfbe6b48"
                                       "133de571ee22e1d820d9600fdf65b6eb241de0a7730171c06f7d560701300cbf"
                                       "17db5b00e53965f7a20bc62303beaa35ecfef3ac57d89f90e4165c931462abd0"
                                       "93192a08cb6ffab3be3ec62a381fbdeae22b5620ef8cd6317db7a852a93f7ac9";

static bool digest_plain(const unsigned char *plain, uint64_t *sum)
{
    static const char *const names[] = { "SHA2-256", "SHA3-512", "BLAKE2b512", "SM3" };
    unsigned char digest[EVP_MAX_MD_SIZE];
    bool well = true;
    for (unsigned i = 0; i < 4 && well; i++) {
        unsigned length = 0;
        EVP_MD *method = EVP_MD_fetch(NULL, names[i], NULL);
        well = method != NULL && EVP_Digest(plain, PLAIN, digest, &length, method, NULL) == 1;
        sum_bytes(sum, digest, length);
        EVP_MD_free(method);
    }
    return well;
}

/* Written for a letter, into memory that grows. */
static bool armour(const unsigned char *plain, uint64_t *sum)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned length = 0;
    char *text;
    BIO *memory = BIO_new(BIO_s_mem());
    BIO *encoder = BIO_new(BIO_f_base64());
    bool well = memory != NULL && encoder != NULL && BIO_push(encoder, memory) != NULL;
    for (unsigned i = 0; i < 32 && well; i++)
        well = BIO_write(encoder, plain, PLAIN) == PLAIN;
    if (well && BIO_flush(encoder) == 1) {
        long size = BIO_get_mem_data(memory, &text);
        well = EVP_Digest(text, (size_t)size, digest, &length, EVP_sha1(), NULL) == 1;
        sum_bytes(sum, digest, length);
    }
    BIO_free(encoder);
    BIO_free(memory);
    return well;
}

static bool encrypt(const unsigned char *plain, uint64_t *sum)
{
    unsigned char secret[PLAIN + 16], back[PLAIN + 16], tag[16];
    int length = 0;
    EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
    bool well = context != NULL && EVP_EncryptInit_ex(context, EVP_aes_256_gcm(), NULL, plain, plain + 32) == 1 &&
                EVP_EncryptUpdate(context, secret, &length, plain, PLAIN) == 1 &&
                EVP_EncryptFinal_ex(context, secret + length, &length) == 1 &&
                EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, sizeof tag, tag) == 1 &&
                EVP_DecryptInit_ex(context, EVP_aes_256_gcm(), NULL, plain, plain + 32) == 1 &&
                EVP_DecryptUpdate(context, back, &length, secret, PLAIN) == 1 &&
                EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, sizeof tag, tag) == 1 &&
                EVP_DecryptFinal_ex(context, back + length, &length) == 1 && memcmp(plain, back, PLAIN) == 0;
    if (well) {
        sum_bytes(sum, secret, PLAIN);
        sum_bytes(sum, tag, sizeof tag);
    }
    EVP_CIPHER_CTX_free(context);
    return well;
}

/* The sum has whether the signature is right: of this sentence it is, of another it is not. */
static bool verify(uint32_t seed, uint64_t *sum)
{
    long size = 0;
    unsigned char *signature = OPENSSL_hexstr2buf(signature_in_hex, &size);
    BIO *file = BIO_new_mem_buf(public_key, -1);
    EVP_PKEY *key = file == NULL ? NULL : PEM_read_bio_PUBKEY(file, NULL, NULL, NULL);
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    bool well = signature != NULL && key != NULL && context != NULL &&
                EVP_DigestVerifyInit_ex(context, NULL, "SHA256", NULL, NULL, key, NULL) == 1;
    if (well) {
        int right = EVP_DigestVerify(context, signature, (size_t)size, (const unsigned char *)sentence,
                                     sizeof sentence - 1 - seed % 2);
        well = right == (seed % 2 == 0);
        sum_number(sum, (uint64_t)right);
        ERR_clear_error();
    }
    EVP_MD_CTX_free(context);
    EVP_PKEY_free(key);
    BIO_free(file);
    OPENSSL_free(signature);
    return well;
}

static bool sign(EVP_PKEY *key, const char *digest, const unsigned char *plain, unsigned char *signature, size_t *size)
{
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    bool well = context != NULL && EVP_DigestSignInit_ex(context, NULL, digest, NULL, NULL, key, NULL) == 1 &&
                EVP_DigestSign(context, signature, size, plain, PLAIN) == 1;
    EVP_MD_CTX_free(context);
    return well;
}

/* The same signature each time. */
static bool sign_surely(const unsigned char *plain, uint64_t *sum)
{
    unsigned char signature[64];
    size_t size = sizeof signature;
    EVP_PKEY *key = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, plain, 32);
    bool well = key != NULL && sign(key, NULL, plain, signature, &size);
    if (well)
        sum_bytes(sum, signature, size);
    EVP_PKEY_free(key);
    return well;
}

/* Another key and another signature each time, by the random generators. */
static bool sign_at_random(const unsigned char *plain, uint64_t *sum)
{
    unsigned char signature[128], random[16];
    size_t size = sizeof signature;
    char curve[] = "P-256"; /* OpenSSL's macro casts away what const there is */
    EVP_PKEY *key = EVP_EC_gen(curve);
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    bool well = key != NULL && context != NULL && RAND_bytes(random, sizeof random) == 1 &&
                sign(key, "SHA256", plain, signature, &size) &&
                EVP_DigestVerifyInit_ex(context, NULL, "SHA256", NULL, NULL, key, NULL) == 1 &&
                EVP_DigestVerify(context, signature, size, plain, PLAIN) == 1;
    sum_number(sum, well);
    EVP_MD_CTX_free(context);
    EVP_PKEY_free(key);
    return well;
}

static int work(uint32_t seed, uint64_t *sum)
{
    uint64_t random = seed;
    uint64_t plain[PLAIN / sizeof(uint64_t)];
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++)
        plain[i] = random_of(&random);
    const unsigned char *bytes = (const unsigned char *)plain;
    if (digest_plain(bytes, sum) && armour(bytes, sum) && encrypt(bytes, sum) && verify(seed, sum) &&
        sign_surely(bytes, sum) && sign_at_random(bytes, sum))
        return 0;
    unsigned long error = ERR_peek_error();
    return ERR_GET_REASON(error) == ERR_R_MALLOC_FAILURE ? ENOMEM : EBADMSG;
}

const struct library library_openssl = { "OpenSSL", { NULL }, work };
