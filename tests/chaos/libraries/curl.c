/* SPDX-License-Identifier: MIT
 *
 * libcurl: addresses are taken apart and put together; a transfer and a form are prepared, and nothing is sent. */
#include "library.h"

#include <curl/curl.h>
#include <stdio.h>

static int take_apart(CURLU *address, unsigned variant, uint64_t *sum)
{
    static const CURLUPart parts[] = { CURLUPART_SCHEME, CURLUPART_HOST, CURLUPART_PATH, CURLUPART_QUERY,
                                       CURLUPART_URL };
    char text[128];
    snprintf(text, sizeof text, "https://user@host%u.example:44%u/a/../b%%20c?x=%u#there", variant, variant, variant);
    CURLUcode code = curl_url_set(address, CURLUPART_URL, text, 0);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0] && code == CURLUE_OK; i++) {
        char *part = NULL;
        code = curl_url_get(address, parts[i], &part, 0);
        chaos_add_text(sum, part);
        curl_free(part);
    }
    return code == CURLUE_OK ? 0 : -1;
}

static int prepare_transfer(CURL *transfer, unsigned variant, uint64_t *sum)
{
    char *escaped = curl_easy_escape(transfer, "a b/c&d", (int)(3 + variant % 4));
    struct curl_slist *headers = escaped != NULL ? curl_slist_append(NULL, escaped) : NULL;
    curl_mime *form = headers != NULL ? curl_mime_init(transfer) : NULL;
    curl_mimepart *part = form != NULL ? curl_mime_addpart(form) : NULL;
    int error = -1;
    if (part != NULL && curl_mime_data(part, escaped, CURL_ZERO_TERMINATED) == CURLE_OK &&
        curl_easy_setopt(transfer, CURLOPT_URL, escaped) == CURLE_OK &&
        curl_easy_setopt(transfer, CURLOPT_COOKIEFILE, "") == CURLE_OK) {
        chaos_add_text(sum, headers->data);
        error = 0;
    }
    curl_mime_free(form);
    curl_slist_free_all(headers);
    curl_free(escaped);
    return error;
}

static int run(unsigned variant, uint64_t *sum)
{
    CURLU *address = curl_url();
    int error = address != NULL ? take_apart(address, variant, sum) : -1;
    curl_url_cleanup(address);
    CURL *transfer = error == 0 ? curl_easy_init() : NULL;
    if (transfer == NULL)
        return -1;
    error = prepare_transfer(transfer, variant, sum);
    curl_easy_cleanup(transfer);
    return error;
}

static void ready(void)
{
    curl_global_init(CURL_GLOBAL_ALL);
}

static const char *version(void)
{
    return curl_version_info(CURLVERSION_NOW)->version;
}

const struct chaos_library CHAOS_ONE = {
    .name = "libcurl",
    .modes = CHAOS_ANY_MODE,
    .preemptible = true,
    .ready = ready,
    .run = run,
    .modules = "libcurl",
    .version = version,
};
