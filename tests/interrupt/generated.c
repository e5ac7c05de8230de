/* SPDX-License-Identifier: MIT
 *
 * An interrupt under generated code whose call frame table has no instructions, as LuaJIT registers it: libgcc ends the
 * process that unwinds such a frame, so the interrupt waits. And what a task has registered is not looked at when it
 * is gone. */
#include "support.h"

#include <sys/mman.h>

extern void __register_frame(void *table);
extern void __deregister_frame(void *table);

/* Calls its argument. */
static const uint8_t code[] = {
    0x48, 0x83, 0xec, 0x08, /* sub $8, %rsp */
    0xff, 0xd7,             /* call *%rdi */
    0x48, 0x83, 0xc4, 0x08, /* add $8, %rsp */
    0xc3,                   /* ret */
};

struct table {
    uint32_t common_length;
    uint32_t common_id;
    uint8_t common[12]; /* version 1, "zR", units 1 and -8, return address 16, relative addresses; no instructions */
    uint32_t length;
    uint32_t to_common;
    int32_t begin; /* from here */
    uint32_t size;
    uint8_t rest[4];
    uint32_t end;
} __attribute__((packed));

struct generated {
    struct table table;
    _Alignas(64) uint8_t code[sizeof code];
};

static struct generated *generate(void)
{
    struct generated *made = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (made == MAP_FAILED)
        return NULL;
    made->table = (struct table){
        .common_length = 16,
        .common = { 1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x1b },
        .length = 16,
        .to_common = offsetof(struct table, to_common),
        .begin = (int32_t)(offsetof(struct generated, code) - offsetof(struct table, begin)),
        .size = sizeof code,
    };
    memcpy(made->code, code, sizeof code);
    return made;
}

static int allocated_after;

static void allocate_until_refused(void)
{
    while (keep(malloc(1000)) != NULL)
        continue;
    allocated_after = stint_is_interrupted();
}

static int call_generated(void *arg, void **value)
{
    struct generated *generated = arg;
    void (*function)(void (*)(void));
    (void)value;
    *(void **)&function = generated->code;
    function(allocate_until_refused);
    return 0;
}

TEST(an_interrupt_waits_under_code_that_cannot_be_unwound)
{
    struct generated *generated = generate();
    assert_non_null(generated);
    __register_frame(&generated->table);
    for (int mode = STINT_JUMP; mode <= STINT_UNWIND; mode++) {
        stint_options options = STINT_OPTIONS_INIT;
        options.on_interrupt = (stint_on_interrupt)mode;
        options.budget.allocation = MIB;
        allocated_after = 0;
        stint_outcome outcome = run_task(call_generated, generated, &options);
        assert_limit_passed(outcome);
        assert_true(allocated_after);
    }
    __deregister_frame(&generated->table);
    munmap(generated, 4096);
}

static int register_and_fail(void *arg, void **value)
{
    struct generated *generated = generate();
    (void)value;
    if (generated == NULL)
        return ENOMEM;
    __register_frame(&generated->table);
    *(void **)arg = generated;
    return EIO;
}

/* Whoever throws, or is interrupted, has all tables looked through. */
TEST(a_table_that_was_registered_goes_with_its_task)
{
    for (int i = 0; i < 50; i++) {
        void *made = NULL;
        assert_int_equal(run_task(register_and_fail, &made, NULL).reason, STINT_REASON_FAILED);
        assert_non_null(made);
        assert_int_equal(msync(made, 4096, MS_ASYNC), -1);
        stint_options options = STINT_OPTIONS_INIT;
        options.on_interrupt = STINT_UNWIND;
        options.budget.allocation = 64 * KIB;
        struct generated *generated = generate();
        assert_limit_passed(run_task(call_generated, generated, &options));
        munmap(generated, 4096);
    }
}

TEST_MAIN()
