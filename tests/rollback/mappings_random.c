/* SPDX-License-Identifier: MIT
 *
 * Random programs of mmap, munmap, mremap, mprotect and mappings in given places, in scopes inside scopes, beside a
 * model that knows of each page of a stretch of addresses whose it is and whether it counts. */
#include "support.h"

#include <sys/mman.h>

#define PAGE ((size_t)getpagesize())
#define PAGES 256
#define STRETCH ((uintptr_t)1 << 40) /* where neither the system nor mimalloc puts anything by itself */
#define DEPTH 3

enum kind { NOTHING, FOREIGN, RESERVED, COUNTED }; /* the second is the process's, whatever is done to it */

struct page {
    enum kind kind;
    unsigned depth; /* of the scope whose it is */
};

struct program {
    uint64_t random;
    char *begin; /* of the stretch, free of anything at the start */
    unsigned steps;
    unsigned depth;
    int error;      /* that the scope ends with */
    size_t charged; /* pages, by all */
    struct page pages[PAGES];
    const char *volatile wrong;
};

static void wrong(struct program *program, const char *what)
{
    if (program->wrong == NULL)
        program->wrong = what;
}

static size_t counted(const struct program *program, unsigned depth)
{
    size_t count = 0;
    for (size_t i = 0; i < PAGES; i++)
        count += program->pages[i].kind == COUNTED && program->pages[i].depth <= depth;
    return count;
}

struct stretch {
    size_t first;
    size_t count;
};

static struct stretch random_stretch(struct program *program)
{
    size_t first = random_below(&program->random, PAGES - 1);
    size_t most = PAGES - first < 40 ? PAGES - first : 40;
    return (struct stretch){ first, 1 + random_below(&program->random, most) };
}

static char *address_of(const struct program *program, size_t page)
{
    return program->begin + page * PAGE;
}

static bool is_free(const struct program *program, struct stretch stretch)
{
    for (size_t i = stretch.first; i < stretch.first + stretch.count; i++) {
        if (program->pages[i].kind != NOTHING)
            return false;
    }
    return true;
}

/* One mapping for mremap, as the kernel sees it: of one kind that it moves whole, and whole again. */
static bool is_even(const struct program *program, struct stretch stretch)
{
    const struct page *first = &program->pages[stretch.first];
    for (size_t i = stretch.first; i < stretch.first + stretch.count; i++) {
        if (program->pages[i].kind != first->kind || program->pages[i].kind < RESERVED ||
            program->pages[i].depth != first->depth)
            return false;
    }
    return true;
}

static void set(struct program *program, struct stretch stretch, enum kind kind, unsigned depth)
{
    for (size_t i = stretch.first; i < stretch.first + stretch.count; i++)
        program->pages[i] = (struct page){ kind, depth };
}

static bool is_something_everywhere(const struct program *program, struct stretch stretch)
{
    for (size_t i = stretch.first; i < stretch.first + stretch.count; i++) {
        if (program->pages[i].kind == NOTHING)
            return false;
    }
    return true;
}

/* Where nothing was it is this scope's; in the place of something whose that was, and of a new kind; it is refused
 * where something was in a part of it. */
static void map_there(struct program *program)
{
    struct stretch stretch = random_stretch(program);
    bool counts = random_below(&program->random, 2) == 1;
    int protection = counts ? PROT_READ | PROT_WRITE : PROT_READ;
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
    bool is_new = is_free(program, stretch);
    bool is_refused = !is_new && !is_something_everywhere(program, stretch);
    char *made = mmap(address_of(program, stretch.first), stretch.count * PAGE, protection, flags, -1, 0);
    int error = made == MAP_FAILED ? errno : 0;
    if (is_refused ? error != EEXIST : made != address_of(program, stretch.first))
        wrong(program, "a mapping in its place ended otherwise");
    program->charged += counts ? stretch.count : 0;
    for (size_t i = stretch.first; !is_refused && i < stretch.first + stretch.count; i++) {
        struct page *there = &program->pages[i];
        if (there->kind != FOREIGN)
            *there = (struct page){ counts ? COUNTED : RESERVED, is_new ? program->depth : there->depth };
    }
}

static void unmap_there(struct program *program)
{
    struct stretch stretch = random_stretch(program);
    if (munmap(address_of(program, stretch.first), stretch.count * PAGE) != 0)
        wrong(program, "an unmap failed");
    set(program, stretch, NOTHING, 0);
}

static void make_writable(struct program *program)
{
    struct stretch stretch = random_stretch(program);
    int protection = random_below(&program->random, 3) == 0 ? PROT_NONE : PROT_READ | PROT_WRITE;
    if (!is_something_everywhere(program, stretch))
        return;
    if (mprotect(address_of(program, stretch.first), stretch.count * PAGE, protection) != 0)
        wrong(program, "mprotect failed");
    for (size_t i = stretch.first; protection != PROT_NONE && i < stretch.first + stretch.count; i++) {
        if (program->pages[i].kind == RESERVED) {
            program->pages[i].kind = COUNTED;
            program->charged++;
        }
    }
}

/* In its own place, with a new size. */
static void move_there(struct program *program)
{
    struct stretch from = random_stretch(program);
    struct stretch to = { from.first, random_stretch(program).count };
    if (to.first + to.count > PAGES || !is_even(program, from))
        return;
    size_t grown = to.count > from.count ? to.count - from.count : 0;
    if (grown > 0 && !is_free(program, (struct stretch){ from.first + from.count, grown }))
        return;
    const struct page page = program->pages[from.first];
    char *place = address_of(program, to.first);
    char *made = mremap(place, from.count * PAGE, to.count * PAGE, 0);
    if (made == MAP_FAILED && errno == EFAULT)
        return; /* the kernel has it in two mappings, by a protection that the model does not know */
    if (made != place)
        wrong(program, "a move failed");
    set(program, from, NOTHING, 0);
    set(program, to, page.kind, page.depth);
    program->charged += page.kind == COUNTED ? grown : 0;
}

static int run_steps(void *arg, void **value);

/* Its own goes or stays; what it has changed of others has been changed. */
static void run_inside(struct program *program)
{
    if (program->depth == DEPTH)
        return;
    int error = random_below(&program->random, 2) == 0 ? EIO : 0;
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.memory = 64 * MIB;
    stint_outcome outcome;
    unsigned steps = program->steps;
    program->depth++;
    program->steps = 20;
    program->error = error;
    if (stint_run(run_steps, program, &options, &outcome) != 0 || (outcome.status == STINT_OK) != (error == 0))
        wrong(program, "a scope inside ended otherwise");
    program->steps = steps;
    program->depth--;
    for (size_t i = 0; i < PAGES; i++) {
        if (program->pages[i].depth > program->depth)
            program->pages[i] =
                error == 0 ? (struct page){ program->pages[i].kind, program->depth } : (struct page){ NOTHING, 0 };
    }
}

static void compare(struct program *program)
{
    stint_budget left;
    stint_usage used;
    stint_usage_now(&used, &left);
    if (left.memory != 64 * MIB - counted(program, program->depth) * PAGE)
        wrong(program, "other bytes count than the model's");
}

static int run_steps(void *arg, void **value)
{
    struct program *program = arg;
    int error = program->error;
    (void)value;
    for (unsigned step = 0; step < program->steps && program->wrong == NULL; step++) {
        switch (random_below(&program->random, 8)) {
        case 0:
        case 1:
        case 2:
            map_there(program);
            break;
        case 3:
        case 4:
            unmap_there(program);
            break;
        case 5:
            make_writable(program);
            break;
        case 6:
            move_there(program);
            break;
        case 7:
            if (random_below(&program->random, 4) == 0)
                run_inside(program);
            break;
        }
        compare(program);
    }
    return error;
}

/* Some of it is the process's, sometimes. */
static void prepare(struct program *program)
{
    munmap(program->begin, PAGES * PAGE);
    for (size_t i = random_below(&program->random, 4); i > 0; i--) {
        struct stretch stretch = random_stretch(program);
        mmap(address_of(program, stretch.first), stretch.count * PAGE, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        set(program, stretch, FOREIGN, 0);
    }
}

static bool is_there(const struct program *program, size_t page)
{
    return msync(address_of(program, page), PAGE, MS_ASYNC) == 0;
}

/* limit: bytes that it may be charged; 0: any number. */
static stint_reason run_program(uint64_t seed, size_t limit)
{
    struct program program = { .random = seed, .begin = (char *)STRETCH, .steps = 100 };
    prepare(&program);
    program.error = random_below(&program.random, 2) == 0 ? EIO : 0;
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.memory = 64 * MIB;
    options.budget.allocation = limit;
    options.on_interrupt = seed % 2 == 0 ? STINT_JUMP : STINT_UNWIND;
    stint_outcome outcome = run_task(run_steps, &program, &options);
    if (program.wrong != NULL)
        print_error("seed %llu: %s\n", (unsigned long long)seed, program.wrong);
    assert_null(program.wrong);
    for (size_t i = 0; i < PAGES; i++) {
        enum kind kind = program.pages[i].kind;
        assert_int_equal(is_there(&program, i), kind == FOREIGN || (outcome.status == STINT_OK && kind != NOTHING));
    }
    assert_true(outcome.usage.allocated >= program.charged * PAGE);
    assert_true(outcome.usage.allocated < program.charged * PAGE + 2000 * 128);
    return outcome.reason;
}

TEST(random_programs_are_followed_to_the_page)
{
    uint64_t random = 15;
    for (unsigned i = 0; i < repeats(400); i++)
        run_program(random_next(&random), 0);
}

TEST(so_are_those_that_are_interrupted_in_any_call)
{
    uint64_t random = 16;
    unsigned stopped = 0;
    for (unsigned i = 0; i < repeats(400); i++)
        stopped +=
            run_program(random_next(&random), 1 + random_below(&random, 4 * MIB)) == STINT_REASON_ALLOCATION_LIMIT;
    assert_true(stopped > repeats(400) / 4);
}

/* --- Many threads, each with its own stretch, and all with the same record --- */

static void *run_some(void *arg)
{
    uint64_t random = (uint64_t)(uintptr_t)arg;
    struct program program = { .wrong = NULL };
    char *begin = (char *)(STRETCH + random * GIB);
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.memory = 64 * MIB;
    for (unsigned i = 0; i < repeats(40) && program.wrong == NULL; i++) {
        stint_outcome outcome;
        program = (struct program){ .random = random_next(&random), .begin = begin, .steps = 100 };
        prepare(&program);
        if (stint_run(run_steps, &program, &options, &outcome) != 0)
            break;
    }
    return (void *)(uintptr_t)program.wrong;
}

TEST(so_they_are_on_many_threads)
{
    pthread_t threads[4];
    for (uintptr_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run_some, (void *)(i + 1)), 0);
    for (unsigned i = 0; i < 4; i++) {
        void *what;
        pthread_join(threads[i], &what);
        if (what != NULL)
            print_error("%s\n", (const char *)what);
        assert_null(what);
    }
}

TEST_MAIN()
