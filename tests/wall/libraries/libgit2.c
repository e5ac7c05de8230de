/* SPDX-License-Identifier: MIT
 *
 * libgit2: tables of the process, under locks of its own making, with counters of references in all that it gives out.
 * The repository is in memory, and no configuration is looked for. */
#include "library.h"

#include <git2.h>
#include <git2/sys/mempack.h>
#include <git2/sys/odb_backend.h>
#include <git2/sys/repository.h>
#include <stdio.h>

#define FILES 6
#define FILE_SIZE 2048

static int begin(void)
{
    int error = git_libgit2_init();
    for (int level = GIT_CONFIG_LEVEL_PROGRAMDATA; level <= GIT_CONFIG_LEVEL_GLOBAL && error >= 0; level++)
        error = git_libgit2_opts(GIT_OPT_SET_SEARCH_PATH, level, "");
    return error < 0 ? error : 0;
}

/* The object is there even if only part of it could be made. */
static int make_repository(git_repository **repository)
{
    git_odb_backend *memory = NULL;
    git_odb *objects = NULL;
    git_config *config = NULL;
    int error = git_repository_new(repository);
    if (error == 0)
        error = git_odb_new(&objects);
    if (error == 0)
        error = git_mempack_new(&memory);
    if (error == 0)
        error = git_odb_add_backend(objects, memory, 1);
    if (error == 0)
        error = git_repository_set_odb(*repository, objects);
    if (error == 0)
        error = git_config_new(&config);
    if (error == 0)
        error = git_repository_set_config(*repository, config);
    git_config_free(config);
    git_odb_free(objects);
    return error;
}

/* The lines that differ between versions are few. */
static size_t write_file(char *text, unsigned file, unsigned version, uint32_t seed)
{
    size_t length = 0;
    uint64_t random = seed + file;
    for (unsigned line = 0; line < 30; line++) {
        unsigned changed = (line + file) % 11 == 0 ? version : 0;
        length += (size_t)snprintf(text + length, FILE_SIZE - length, "line %u: %u, version %u\n", line,
                                   (unsigned)(random_of(&random) % 100000), changed);
    }
    return length;
}

static int make_tree(git_oid *id, git_repository *repository, unsigned version, uint32_t seed)
{
    git_treebuilder *builder = NULL;
    int error = git_treebuilder_new(&builder, repository, NULL);
    for (unsigned file = 0; file < FILES && error == 0; file++) {
        char text[FILE_SIZE], name[32];
        git_oid blob;
        snprintf(name, sizeof name, file == version ? "moved-%u" : "file-%u", file);
        error = git_blob_create_from_buffer(&blob, repository, text, write_file(text, file, file % 3 * version, seed));
        if (error == 0)
            error = git_treebuilder_insert(NULL, builder, name, &blob, GIT_FILEMODE_BLOB);
    }
    if (error == 0)
        error = git_treebuilder_write(id, builder);
    git_treebuilder_free(builder);
    return error;
}

static int make_commit(git_oid *id, git_repository *repository, git_tree *tree, uint32_t seed)
{
    git_signature *author = NULL;
    int error = git_signature_new(&author, "A. U. Thor", "author@example.org", 1600000000 + seed, 60);
    if (error == 0)
        error =
            git_commit_create(id, repository, NULL, author, author, NULL, "A message\n\nof two lines\n", tree, 0, NULL);
    git_signature_free(author);
    return error;
}

static int sum_difference(git_repository *repository, git_tree *before, git_tree *after, uint64_t *sum)
{
    git_diff *diff = NULL;
    git_buf text = { 0 };
    int error = git_diff_tree_to_tree(&diff, repository, before, after, NULL);
    if (error == 0)
        error = git_diff_find_similar(diff, NULL);
    if (error == 0)
        error = git_diff_to_buf(&text, diff, GIT_DIFF_FORMAT_PATCH);
    if (error == 0)
        sum_bytes(sum, text.ptr, text.size);
    git_buf_dispose(&text);
    git_diff_free(diff);
    return error;
}

static int sum_merge(uint32_t seed, uint64_t *sum)
{
    char texts[3][FILE_SIZE];
    git_merge_file_input inputs[3];
    git_merge_file_result result = { 0 };
    for (unsigned i = 0; i < 3; i++) {
        git_merge_file_input_init(&inputs[i], GIT_MERGE_FILE_INPUT_VERSION);
        inputs[i].ptr = texts[i];
        inputs[i].size = write_file(texts[i], 1, i, seed);
        inputs[i].path = "merged";
    }
    int error = git_merge_file(&result, &inputs[0], &inputs[1], &inputs[2], NULL);
    if (error == 0)
        sum_bytes(sum, result.ptr, result.len);
    git_merge_file_result_free(&result);
    return error;
}

/* By the calling thread alone: a child may start none. */
static int sum_pack(git_repository *repository, const git_oid *commit, uint64_t *sum)
{
    git_packbuilder *builder = NULL;
    git_buf pack = { 0 };
    int error = git_packbuilder_new(&builder, repository);
    if (error == 0) {
        git_packbuilder_set_threads(builder, 1);
        error = git_packbuilder_insert_commit(builder, commit);
    }
    if (error == 0)
        error = git_packbuilder_write_buf(&pack, builder);
    if (error == 0)
        sum_bytes(sum, pack.ptr, pack.size);
    git_buf_dispose(&pack);
    git_packbuilder_free(builder);
    return error;
}

static int fill_and_compare(git_repository *repository, uint32_t seed, uint64_t *sum)
{
    git_oid ids[2], commit;
    git_tree *trees[2] = { NULL, NULL };
    int error = 0;
    for (unsigned version = 0; version < 2 && error == 0; version++) {
        error = make_tree(&ids[version], repository, version + 1, seed);
        if (error == 0)
            error = git_tree_lookup(&trees[version], repository, &ids[version]);
    }
    if (error == 0)
        error = make_commit(&commit, repository, trees[1], seed);
    if (error == 0)
        error = sum_difference(repository, trees[0], trees[1], sum);
    if (error == 0)
        error = sum_pack(repository, &commit, sum);
    if (error == 0)
        sum_bytes(sum, &commit, sizeof commit);
    git_tree_free(trees[0]);
    git_tree_free(trees[1]);
    return error;
}

/* It is initialised once more each time, and never shut down: its state for the process stays. */
static int work(uint32_t seed, uint64_t *sum)
{
    git_repository *repository = NULL;
    int error = begin();
    if (error == 0)
        error = make_repository(&repository);
    if (error == 0)
        error = fill_and_compare(repository, seed, sum);
    if (error == 0)
        error = sum_merge(seed, sum);
    git_repository_free(repository);
    if (error == 0)
        return 0;
    const git_error *last = git_error_last();
    return last != NULL && last->klass == GIT_ERROR_NOMEMORY ? ENOMEM : EBADMSG;
}

const struct library library_libgit2 = { "libgit2", { NULL }, work };
