/* SPDX-License-Identifier: MIT
 *
 * Quantiles; see statistics.h. Any thread. */
#include "statistics.h"

#include <math.h>
#include <stdlib.h>

bool figures_add(struct figures *figures, double figure)
{
    if (figures->count == figures->room) {
        size_t room = figures->room == 0 ? 64 : figures->room * 2;
        double *list = realloc(figures->list, room * sizeof *list);
        if (list == NULL)
            return false;
        figures->list = list;
        figures->room = room;
    }
    figures->list[figures->count++] = figure;
    return true;
}

void figures_free(struct figures *figures)
{
    free(figures->list);
    *figures = (struct figures){ .list = NULL };
}

static int ascending(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;
    return (a > b) - (a < b);
}

void figures_sort(struct figures *figures)
{
    if (figures->count > 1)
        qsort(figures->list, figures->count, sizeof *figures->list, ascending);
}

double figures_quantile(const struct figures *figures, double part)
{
    if (figures->count == 0)
        return 0;
    return figures->list[(size_t)lround((double)(figures->count - 1) * part)];
}

/* Each figure lies below the median with a probability of a half, so how many do is binomial. */
struct interval figures_interval(const struct figures *figures)
{
    size_t n = figures->count;
    if (n == 0)
        return (struct interval){ 0, 0 };
    size_t skipped = 0;
    double below = pow(0.5, (double)n); /* probability that at most so many as are skipped lie below the median */
    double exactly = below;
    while (2 * (skipped + 1) < n) {
        exactly = exactly * (double)(n - skipped) / (double)(skipped + 1);
        if (2 * (below + exactly) > 0.05)
            break;
        below += exactly;
        skipped++;
    }
    return (struct interval){ figures->list[skipped], figures->list[n - 1 - skipped] };
}
