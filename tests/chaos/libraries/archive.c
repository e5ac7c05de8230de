/* SPDX-License-Identifier: MIT
 *
 * libarchive: files are packed into an archive in memory, and read out of it. */
#include "library.h"

#include <archive.h>
#include <archive_entry.h>
#include <stdio.h>

#define ROOM 16384

static int write_files(struct archive *archive, unsigned variant)
{
    int result = ARCHIVE_OK;
    for (unsigned i = 0; i < 3 && result == ARCHIVE_OK; i++) {
        char name[32];
        char text[300];
        snprintf(name, sizeof name, "folder/file %u", i);
        memset(text, (int)('a' + variant + i), sizeof text);
        struct archive_entry *entry = archive_entry_new();
        if (entry == NULL)
            return ARCHIVE_FATAL;
        archive_entry_set_pathname(entry, name);
        archive_entry_set_size(entry, sizeof text);
        archive_entry_set_filetype(entry, AE_IFREG);
        archive_entry_set_perm(entry, 0644);
        result = archive_write_header(archive, entry);
        if (result == ARCHIVE_OK && archive_write_data(archive, text, sizeof text) != sizeof text)
            result = ARCHIVE_FATAL;
        archive_entry_free(entry);
    }
    return result;
}

static int pack(unsigned variant, char *bytes, size_t *used)
{
    struct archive *archive = archive_write_new();
    if (archive == NULL)
        return ARCHIVE_FATAL;
    int result =
        variant % 2 == 0 ? archive_write_set_format_ustar(archive) : archive_write_set_format_cpio_newc(archive);
    if (result == ARCHIVE_OK)
        result = archive_write_open_memory(archive, bytes, ROOM, used);
    if (result == ARCHIVE_OK)
        result = write_files(archive, variant);
    if (result == ARCHIVE_OK)
        result = archive_write_close(archive);
    archive_write_free(archive);
    return result;
}

static int read_files(struct archive *archive, uint64_t *sum)
{
    struct archive_entry *entry;
    char text[300];
    int result;
    while ((result = archive_read_next_header(archive, &entry)) == ARCHIVE_OK) {
        chaos_add_text(sum, archive_entry_pathname(entry));
        if (archive_read_data(archive, text, sizeof text) != sizeof text)
            return ARCHIVE_FATAL;
        chaos_add(sum, text, sizeof text);
    }
    return result == ARCHIVE_EOF ? ARCHIVE_OK : ARCHIVE_FATAL;
}

static int run(unsigned variant, uint64_t *sum)
{
    char bytes[ROOM];
    size_t used = 0;
    int result = pack(variant, bytes, &used);
    struct archive *archive = result == ARCHIVE_OK ? archive_read_new() : NULL;
    if (archive == NULL)
        return -1;
    archive_read_support_format_tar(archive);
    archive_read_support_format_cpio(archive);
    result = archive_read_open_memory(archive, bytes, used);
    if (result == ARCHIVE_OK)
        result = read_files(archive, sum);
    archive_read_free(archive);
    return result == ARCHIVE_OK ? 0 : -1;
}

const struct chaos_library CHAOS_ONE = {
    .name = "libarchive",
    .modes = CHAOS_ANY_MODE,
    .preemptible = true,
    .run = run,
    .modules = "libarchive",
    .version = archive_version_string,
};
