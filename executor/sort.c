/* SPDX-License-Identifier: MIT
 *
 * The merge sort of stint/parallel.h. Any thread.
 *
 * The elements go back and forth between the caller's array and one of the same size; each half is sorted into the one
 * that it will not be merged into. A merge of two long runs is halved at the middle of the longer one. */
#include <errno.h>
#include <stint/alloc.h>
#include <stint/fork.h>
#include <stint/parallel.h>
#include <string.h>

#define INSERTED 12      /* elements that are sorted by insertion */
#define SORT_GRAIN 256   /* elements that are sorted without a fork */
#define MERGE_GRAIN 4096 /* elements that are merged without one */

struct order {
    stint_compare_fn *compare;
    void *arg;
    size_t size;
};

static bool is_behind(const struct order *order, const char *a, const char *b)
{
    return order->compare(a, b, order->arg) > 0;
}

/* --- With a size that the compiler may know ------------------------------------------------------------------------- */

static inline __attribute__((always_inline)) void copy(char *to, const char *from, size_t size)
{
    memcpy(to, from, size);
}

static inline __attribute__((always_inline)) void merge_sized(const struct order *order, const char *a,
                                                              const char *a_end, const char *b, const char *b_end,
                                                              char *to, size_t size)
{
    while (a < a_end && b < b_end) {
        const char **first = is_behind(order, a, b) ? &b : &a;
        copy(to, *first, size);
        *first += size;
        to += size;
    }
    memcpy(to, a, (size_t)(a_end - a));
    memcpy(to + (a_end - a), b, (size_t)(b_end - b));
}

static void merge_plainly(const struct order *order, const char *a, const char *a_end, const char *b, const char *b_end,
                          char *to)
{
    switch (order->size) {
    case 4:
        merge_sized(order, a, a_end, b, b_end, to, 4);
        break;
    case 8:
        merge_sized(order, a, a_end, b, b_end, to, 8);
        break;
    default:
        merge_sized(order, a, a_end, b, b_end, to, order->size);
    }
}

static void insert_each(const struct order *order, const char *from, size_t count, char *to)
{
    size_t size = order->size;
    for (size_t i = 0; i < count; i++) {
        const char *element = from + i * size;
        size_t place = i;
        while (place > 0 && is_behind(order, to + (place - 1) * size, element))
            place--;
        memmove(to + (place + 1) * size, to + place * size, (i - place) * size);
        memcpy(to + place * size, element, size);
    }
}

/* --- Merging -------------------------------------------------------------------------------------------------------- */

struct merge {
    const struct order *order;
    const char *a;
    size_t a_count;
    const char *b; /* what is equal comes behind that of a */
    size_t b_count;
    char *to;
};

/* How many of the sorted elements come before this one; with equal ones, or without. */
static size_t count_before(const struct order *order, const char *elements, size_t count, const char *element,
                           bool with_equal)
{
    size_t least = 0;
    while (least < count) {
        size_t middle = least + (count - least) / 2;
        const char *other = elements + middle * order->size;
        bool is_before = with_equal ? !is_behind(order, other, element) : is_behind(order, element, other);
        if (is_before)
            least = middle + 1;
        else
            count = middle;
    }
    return least;
}

static int merge(void *argument, void **value)
{
    const struct merge *whole = argument;
    const struct order *order = whole->order;
    size_t size = order->size;
    (void)value;
    if (whole->a_count + whole->b_count <= MERGE_GRAIN) {
        merge_plainly(order, whole->a, whole->a + whole->a_count * size, whole->b, whole->b + whole->b_count * size,
                      whole->to);
        return 0;
    }
    size_t a_count = whole->a_count / 2;
    size_t b_count = whole->b_count / 2;
    if (whole->a_count >= whole->b_count)
        b_count = count_before(order, whole->b, whole->b_count, whole->a + a_count * size, false);
    else
        a_count = count_before(order, whole->a, whole->a_count, whole->b + b_count * size, true);
    struct merge lower = { order, whole->a, a_count, whole->b, b_count, whole->to };
    struct merge upper = { order,
                           whole->a + a_count * size,
                           whole->a_count - a_count,
                           whole->b + b_count * size,
                           whole->b_count - b_count,
                           whole->to + (a_count + b_count) * size };
    __attribute__((cleanup(stint_fork_drop))) stint_subtask subtask;
    stint_fork(&subtask, merge, &upper);
    int error = merge(&lower, NULL);
    return error != 0 ? error : stint_join(&subtask, NULL);
}

/* --- Sorting -------------------------------------------------------------------------------------------------------- */

struct sort {
    const struct order *order;
    char *elements;
    size_t count;
    char *other; /* room for as many */
    bool into_other;
};

static int sort(void *argument, void **value);

static int sort_halves(struct sort *lower, struct sort *upper)
{
    __attribute__((cleanup(stint_fork_drop))) stint_subtask subtask = { .place = STINT_FORK_JOINED };
    bool forks = lower->count + upper->count > SORT_GRAIN;
    if (forks)
        stint_fork(&subtask, sort, upper);
    int error = sort(lower, NULL);
    if (error != 0)
        return error;
    return forks ? stint_join(&subtask, NULL) : sort(upper, NULL);
}

static int sort(void *argument, void **value)
{
    struct sort *whole = argument;
    const struct order *order = whole->order;
    size_t count = whole->count;
    (void)value;
    if (count <= INSERTED) {
        insert_each(order, whole->elements, count, whole->other);
        if (!whole->into_other)
            memcpy(whole->elements, whole->other, count * order->size);
        return 0;
    }
    size_t half = count / 2;
    size_t offset = half * order->size;
    struct sort lower = { order, whole->elements, half, whole->other, !whole->into_other };
    struct sort upper = { order, whole->elements + offset, count - half, whole->other + offset, !whole->into_other };
    int error = sort_halves(&lower, &upper);
    if (error != 0)
        return error;
    const char *from = whole->into_other ? whole->elements : whole->other;
    char *to = whole->into_other ? whole->other : whole->elements;
    return merge(&(struct merge){ order, from, half, from + offset, count - half, to }, NULL);
}

static void free_other(void **other)
{
    stint_free(*other);
}

int stint_sort(void *base, size_t count, size_t size, stint_compare_fn *compare, void *arg)
{
    if (compare == NULL || size == 0 || (base == NULL && count > 0))
        return EINVAL;
    if (count < 2)
        return 0;
    __attribute__((cleanup(free_other))) void *other = stint_reallocarray(NULL, count, size);
    if (other == NULL)
        return ENOMEM;
    const struct order order = { compare, arg, size };
    struct sort all = { &order, base, count, other, false };
    return sort(&all, NULL);
}
