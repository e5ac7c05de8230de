/* SPDX-License-Identifier: MIT
 *
 * seccomp: what a child adds to its template's filter; see child_calls.h, and seccomp(2).
 *
 * When a filter is loaded, the kernel compiles it, and asks what becomes of each of its hundreds of calls. So this one
 * is short, a tree, and its ends are shared. The filter is put together here, without libseccomp: that would take
 * longer than all else that a child does before its task. */
#include "child_calls.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "alloc/platform/machine.h"

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

enum verdict {
    ALLOWED,
    REFUSED,  /* EPERM */
    AGAIN,    /* EAGAIN, as a fork that has reached a limit */
    UNKNOWN,  /* ENOSYS */
    FOR_SELF, /* allowed where the first argument is the process's own number */
    ASKING,   /* allowed where the third is NULL: prlimit64 that sets nothing */
    BOUND,    /* prctl, but for what would let it outlive its template */
    VERDICTS,
};

struct rule {
    unsigned first, last; /* calls */
    enum verdict verdict;
    unsigned when; /* all of these */
};

enum { /* when */
       CLOSED = 1,
       NO_PROCESSES = 2,
       SIGNALS_PASS = 4,
};

/* In the order of x86-64's numbers. */
static const struct rule rules[] = {
#ifdef SYS_vfork
    { SYS_clone, SYS_vfork, AGAIN, NO_PROCESSES }, /* and fork, between them */
#else
    { SYS_clone, SYS_clone, AGAIN, NO_PROCESSES },
#endif
    { SYS_kill, SYS_kill, FOR_SELF, CLOSED | SIGNALS_PASS },
    { SYS_setpgid, SYS_setpgid, REFUSED, 0 },
    { SYS_setsid, SYS_setsid, REFUSED, 0 },
    { SYS_rt_sigqueueinfo, SYS_rt_sigqueueinfo, FOR_SELF, CLOSED | SIGNALS_PASS },
    { SYS_prctl, SYS_prctl, BOUND, 0 },
    { SYS_tkill, SYS_tkill, FOR_SELF, CLOSED | SIGNALS_PASS },
    { SYS_tgkill, SYS_tgkill, FOR_SELF, CLOSED | SIGNALS_PASS },
    { SYS_rt_tgsigqueueinfo, SYS_rt_tgsigqueueinfo, FOR_SELF, CLOSED | SIGNALS_PASS },
    { SYS_prlimit64, SYS_prlimit64, ASKING, CLOSED },
    { SYS_process_vm_readv, SYS_process_vm_readv, FOR_SELF, CLOSED },
    { SYS_seccomp, SYS_seccomp, REFUSED, CLOSED },
    { SYS_pidfd_send_signal, SYS_pidfd_send_signal, REFUSED, CLOSED },
    { SYS_pidfd_open, SYS_pidfd_open, REFUSED, CLOSED },
    { SYS_clone3, SYS_clone3, UNKNOWN, NO_PROCESSES },
};

/* Where a jump leads: so many instructions on, or, from here up, to the verdict of this number less that. */
#define TO(verdict) (200U + (verdict))

struct program {
    struct sock_filter code[16 + 3 * LENGTH(rules) + 2 * VERDICTS];
    unsigned short length;
    unsigned short ends[VERDICTS];
};

static void program_put(struct program *program, unsigned code, unsigned value)
{
    program->code[program->length++] = (struct sock_filter)BPF_STMT((uint16_t)code, value);
}

static void put_jump(struct program *program, unsigned test, unsigned value, unsigned yes, unsigned no)
{
    program->code[program->length++] =
        (struct sock_filter)BPF_JUMP((uint16_t)(BPF_JMP | BPF_K | test), value, (uint8_t)yes, (uint8_t)no);
}

static void put_load(struct program *program, size_t offset)
{
    program_put(program, BPF_LD | BPF_W | BPF_ABS, (unsigned)offset);
}

/* The lower half of an argument; the upper one is the next word. */
static size_t argument_at(unsigned index)
{
    return offsetof(struct seccomp_data, args) + index * sizeof(uint64_t);
}

static void put_rule(struct program *program, const struct rule *rule)
{
    if (rule->first == rule->last) {
        put_jump(program, BPF_JEQ, rule->first, TO(rule->verdict), TO(ALLOWED));
    } else {
        put_jump(program, BPF_JGE, rule->first, 0, TO(ALLOWED));
        put_jump(program, BPF_JGT, rule->last, TO(ALLOWED), TO(rule->verdict));
    }
}

/* The number of the call has been loaded. */
static void put_tree(struct program *program, const struct rule *const *chosen, size_t count)
{
    if (count == 1) {
        put_rule(program, chosen[0]);
        return;
    }
    size_t half = count / 2;
    unsigned short branch = program->length;
    put_jump(program, BPF_JGE, chosen[half]->first, 0, 0);
    put_tree(program, chosen, half);
    program->code[branch].jt = (uint8_t)(program->length - branch - 1);
    put_tree(program, chosen + half, count - half);
}

static void program_begin_end(struct program *program, enum verdict verdict)
{
    program->ends[verdict] = program->length;
}

static void program_put_end(struct program *program, enum verdict verdict, unsigned action)
{
    program_begin_end(program, verdict);
    program_put(program, BPF_RET | BPF_K, action);
}

static void put_ends(struct program *program)
{
    program_begin_end(program, FOR_SELF);
    put_load(program, argument_at(0)); /* the kernel takes it for an int */
    put_jump(program, BPF_JEQ, (unsigned)getpid(), TO(ALLOWED), TO(REFUSED));
    program_begin_end(program, ASKING);
    put_load(program, argument_at(2));
    put_jump(program, BPF_JEQ, 0, 0, TO(REFUSED));
    put_load(program, argument_at(2) + sizeof(uint32_t));
    put_jump(program, BPF_JEQ, 0, TO(ALLOWED), TO(REFUSED));
    program_begin_end(program, BOUND);
    put_load(program, argument_at(0));
    put_jump(program, BPF_JEQ, PR_SET_PDEATHSIG, TO(REFUSED), TO(ALLOWED));
    program_put_end(program, ALLOWED, SECCOMP_RET_ALLOW);
    program_put_end(program, REFUSED, SECCOMP_RET_ERRNO | EPERM);
    program_put_end(program, AGAIN, SECCOMP_RET_ERRNO | EAGAIN);
    program_put_end(program, UNKNOWN, SECCOMP_RET_ERRNO | ENOSYS);
}

static uint8_t program_distance(const struct program *program, size_t from, uint8_t to)
{
    return to >= TO(0) ? (uint8_t)(program->ends[to - TO(0)] - from - 1) : to;
}

static void lead_to_ends(struct program *program)
{
    for (size_t i = 0; i < program->length; i++) {
        struct sock_filter *jump = &program->code[i];
        if (BPF_CLASS(jump->code) == BPF_JMP) {
            jump->jt = program_distance(program, i, jump->jt);
            jump->jf = program_distance(program, i, jump->jf);
        }
    }
}

static void put_program(struct program *program, const struct rule *const *chosen, size_t count)
{
    put_load(program, offsetof(struct seccomp_data, arch));
    put_jump(program, BPF_JEQ, STI_SYSTEM_CALLS, 0, TO(UNKNOWN));
    put_load(program, offsetof(struct seccomp_data, nr));
#ifdef STI_SYSTEM_CALLS_END
    put_jump(program, BPF_JGE, STI_SYSTEM_CALLS_END, TO(UNKNOWN), 0);
#endif
    put_tree(program, chosen, count);
    put_ends(program);
    lead_to_ends(program);
}

/* By the numbers of the calls, which are others on each processor. */
static void choose_rule(const struct rule **chosen, size_t count, const struct rule *rule)
{
    size_t at = count;
    for (; at > 0 && chosen[at - 1]->first > rule->first; at--)
        chosen[at] = chosen[at - 1];
    chosen[at] = rule;
}

int sti_child_calls_refuse(const struct sti_wall_config *config, bool signals_are_kept)
{
    unsigned is = (config->sandbox == STINT_WALL_CLOSED ? CLOSED : 0U) | (config->processes == 0 ? NO_PROCESSES : 0U) |
                  (signals_are_kept ? 0U : SIGNALS_PASS);
    const struct rule *chosen[LENGTH(rules)];
    size_t count = 0;
    for (size_t i = 0; i < LENGTH(rules); i++)
        if ((rules[i].when & ~is) == 0)
            choose_rule(chosen, count++, &rules[i]);
    struct program program;
    program.length = 0;
    put_program(&program, chosen, count);
    const struct sock_fprog loaded = { .len = program.length, .filter = program.code };
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &loaded) == 0 ? 0 : errno;
}
