#include "alloc/report/report.h"
#include "crash.h"
#include "group.h"
#include "sandbox.h"
#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
int sti_report_adopt(const void *bytes, size_t size, struct stint_report **report);
int sti_report_adopt(const void *bytes, size_t size, struct stint_report **report)
{
    (void)bytes;
    (void)size;
    *report = NULL;
    return ENOTSUP;
}
void sti_crash_watch(struct sti_crash_record *r)
{
    (void)r;
}
bool sti_crash_check(struct sti_crash_record *r)
{
    (void)r;
    return false;
}
struct stint_report *sti_crash_report(const struct sti_crash_record *c, const stint_outcome *o, const stint_options *p,
                                      stint_wall_fn *fn)
{
    (void)c;
    (void)o;
    (void)p;
    (void)fn;
    return NULL;
}
int sti_sandbox_check(const struct sti_wall_config *c, char *m, size_t s)
{
    (void)c;
    (void)m;
    (void)s;
    return 0;
}
int sti_sandbox_close(const struct sti_wall_config *c, char *m, size_t s)
{
    (void)c;
    (void)m;
    (void)s;
    return 0;
}
int sti_sandbox_enter_child(const struct sti_wall_config *c, const int *g, size_t n)
{
    (void)c;
    (void)g;
    (void)n;
    return 0;
}
struct sti_wall_group *sti_wall_group_make(const struct sti_wall_config *c)
{
    (void)c;
    return NULL;
}
size_t sti_wall_group_fds(const struct sti_wall_group *g, int f[2])
{
    (void)g;
    (void)f;
    return 0;
}
bool sti_wall_group_ran_out(struct sti_wall_group *g)
{
    (void)g;
    return false;
}
void sti_wall_group_end(struct sti_wall_group *g)
{
    (void)g;
}
