/* SPDX-License-Identifier: MIT
 *
 * ICU: converters, collators, break iterators, normalizers and formats are read out of its data at first use, and kept
 * in caches of the process. */
#include "library.h"

#include <unicode/ubrk.h>
#include <unicode/ucnv.h>
#include <unicode/ucol.h>
#include <unicode/unorm2.h>
#include <unicode/unum.h>
#include <unicode/uregex.h>
#include <unicode/ustring.h>

#define TEXT 512
#define WORDS 24

struct text {
    UChar units[TEXT];
    int32_t length;
};

/* The error as an errno value. */
static int error_of(UErrorCode status)
{
    if (U_SUCCESS(status))
        return 0;
    return status == U_MEMORY_ALLOCATION_ERROR ? ENOMEM : EBADMSG;
}

static const char *const words[] = { "Zürich", "Äpfel",  "apfel",  "Ångström", "straße", "STRASSE", "日本語", "東京",
                                     "naïve",  "résumé", "Résumé", "łódź",     "Ωμέγα",  "όμικρον", "ñandú",  "nandu",
                                     "ﬁsh",    "①②③",    "カナ",   "かな",     "привет", "мир",     "שלום",   "ÿ" };

static void fill_text(struct text *text, uint32_t seed, UErrorCode *status)
{
    char bytes[TEXT] = "";
    uint64_t random = seed;
    size_t length = 0;
    for (unsigned i = 0; i < 20; i++) {
        const char *word = words[random_of(&random) % WORDS];
        size_t size = strlen(word);
        memcpy(bytes + length, word, size);
        memcpy(bytes + length + size, i % 6 == 5 ? ". " : " ", i % 6 == 5 ? 2 : 1);
        length += size + (i % 6 == 5 ? 2 : 1);
    }
    u_strFromUTF8(text->units, TEXT, &text->length, bytes, (int32_t)length, status);
}

static void sum_units(uint64_t *sum, const UChar *units, int32_t length)
{
    sum_bytes(sum, units, (size_t)length * sizeof *units);
}

static void convert(const struct text *text, const char *encoding, uint64_t *sum, UErrorCode *status)
{
    char bytes[4 * TEXT];
    UChar back[2 * TEXT];
    UConverter *converter = ucnv_open(encoding, status);
    int32_t length = ucnv_fromUChars(converter, bytes, sizeof bytes, text->units, text->length, status);
    if (U_SUCCESS(*status)) {
        sum_bytes(sum, bytes, (size_t)length);
        int32_t units = ucnv_toUChars(converter, back, 2 * TEXT, bytes, length, status);
        if (U_SUCCESS(*status))
            sum_units(sum, back, units);
    }
    ucnv_close(converter);
}

static void collate(const char *locale, uint64_t *sum, UErrorCode *status)
{
    UCollator *collator = ucol_open(locale, status);
    UChar units[WORDS][32];
    int32_t lengths[WORDS];
    unsigned order[WORDS];
    for (unsigned i = 0; i < WORDS && U_SUCCESS(*status); i++) {
        u_strFromUTF8(units[i], 32, &lengths[i], words[i], -1, status);
        unsigned at = i;
        for (;
             at > 0 && U_SUCCESS(*status) &&
             ucol_strcoll(collator, units[order[at - 1]], lengths[order[at - 1]], units[i], lengths[i]) == UCOL_GREATER;
             at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    if (U_SUCCESS(*status)) {
        uint8_t key[256];
        for (unsigned i = 0; i < WORDS; i++) {
            sum_number(sum, order[i]);
            int32_t size = ucol_getSortKey(collator, units[i], lengths[i], key, sizeof key);
            sum_bytes(sum, key, (size_t)(size < (int32_t)sizeof key ? size : (int32_t)sizeof key));
        }
    }
    ucol_close(collator);
}

static void find_breaks(const struct text *text, UBreakIteratorType type, const char *locale, uint64_t *sum,
                        UErrorCode *status)
{
    UBreakIterator *iterator = ubrk_open(type, locale, text->units, text->length, status);
    if (U_SUCCESS(*status)) {
        for (int32_t at = ubrk_first(iterator); at != UBRK_DONE; at = ubrk_next(iterator))
            sum_number(sum, (uint64_t)at);
    }
    ubrk_close(iterator);
}

static void normalize(const struct text *text, uint64_t *sum, UErrorCode *status)
{
    UChar folded[8 * TEXT];
    const UNormalizer2 *normalizer = unorm2_getNFKCCasefoldInstance(status);
    int32_t length = unorm2_normalize(normalizer, text->units, text->length, folded, 8 * TEXT, status);
    if (U_SUCCESS(*status))
        sum_units(sum, folded, length);
    length = u_strToUpper(folded, 8 * TEXT, text->units, text->length, "tr", status);
    if (U_SUCCESS(*status))
        sum_units(sum, folded, length);
}

static void format_number(uint32_t seed, const char *locale, uint64_t *sum, UErrorCode *status)
{
    UChar written[128];
    UNumberFormat *format = unum_open(UNUM_CURRENCY, NULL, 0, locale, NULL, status);
    int32_t length = unum_formatDouble(format, (double)seed * 1234.5, written, 128, NULL, status);
    if (U_SUCCESS(*status))
        sum_units(sum, written, length);
    unum_close(format);
}

static void match(const struct text *text, uint64_t *sum, UErrorCode *status)
{
    URegularExpression *expression = uregex_openC("\\p{Lu}\\w*|\\p{Han}+", UREGEX_UWORD, NULL, status);
    uregex_setText(expression, text->units, text->length, status);
    while (uregex_findNext(expression, status)) {
        sum_number(sum, (uint64_t)uregex_start(expression, 0, status));
        sum_number(sum, (uint64_t)uregex_end(expression, 0, status));
    }
    uregex_close(expression);
}

static int work(uint32_t seed, uint64_t *sum)
{
    static const char *const encodings[] = {
        "Shift_JIS", "GB18030", "windows-1252", "ISO-2022-JP", "KOI8-R", "EUC-JP"
    };
    static const char *const locales[] = { "de", "sv", "es", "fr_CA", "da", "pl" };
    struct text text = { .length = 0 };
    UErrorCode status = U_ZERO_ERROR;
    fill_text(&text, seed, &status);
    for (unsigned i = 0; i < 3; i++)
        convert(&text, encodings[(seed + i) % 6], sum, &status);
    collate(locales[seed % 6], sum, &status);
    find_breaks(&text, UBRK_WORD, "en", sum, &status);
    find_breaks(&text, UBRK_SENTENCE, "de", sum, &status);
    normalize(&text, sum, &status);
    format_number(seed, locales[(seed + 3) % 6], sum, &status);
    match(&text, sum, &status);
    return error_of(status);
}

const struct library library_icu = { "ICU", { NULL }, work };
