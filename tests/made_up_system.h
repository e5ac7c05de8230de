/* SPDX-License-Identifier: MIT
 *
 * Made-up systems, whose root is a folder of the test's. */
#ifndef TESTS_MADE_UP_SYSTEM_H
#define TESTS_MADE_UP_SYSTEM_H

#include <ftw.h>
#include <sys/stat.h>

#include "support.h"

#define VERSION_2 "/sys/fs/cgroup/cgroup.controllers" /* where it is mounted */
#define TEMPLATE P_tmpdir "/stint-system-XXXXXX"

static char root[] = TEMPLATE;

static inline int make_root(void **state)
{
    (void)state;
    strcpy(root, TEMPLATE);
    return mkdtemp(root) == NULL;
}

static inline int remove_one(const char *path, const struct stat *status, int type, struct FTW *at)
{
    (void)status;
    (void)type;
    (void)at;
    return remove(path);
}

static inline int remove_root(void **state)
{
    (void)state;
    return nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* A file below the root, with the folders that lead to it. */
static inline void put(const char *path, const char *text)
{
    char whole[8192];
    snprintf(whole, sizeof whole, "%s%s", root, path);
    for (char *slash = strchr(whole + strlen(root) + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        assert_true(mkdir(whole, 0700) == 0 || errno == EEXIST);
        *slash = '/';
    }
    FILE *file = fopen(whole, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

#define TEST_IN_ROOT(name) TEST_WITH(name, make_root, remove_root)

#endif
