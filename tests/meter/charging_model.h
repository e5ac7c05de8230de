/* SPDX-License-Identifier: MIT
 *
 * The rules of docs/metering.md written down a second time, for tests: what a task is charged, which allocation is
 * refused, whose limit that is and how each scope ends. It knows nothing of how stint keeps to them. What mimalloc
 * makes of a size is known between two bounds; where that leaves open whether a memory limit is passed, the model says
 * so, and a test asks for something else.
 *
 * The model is told of each step before the step is made, and runs ahead to where it ends: so after a jump it already
 * stands in the scope in which the task goes on. */
#ifndef TESTS_CHARGING_MODEL_H
#define TESTS_CHARGING_MODEL_H

#include "support.h"

#define MODEL_DEPTH 5
#define MODEL_GRANT (256 * KIB)
#define MODEL_GRACE MIB
#define MODEL_LIBC (16 * MIB)
#define MODEL_LARGEST ((size_t)1 << 47)

struct model_account {
    struct model_account *parent;
    uint64_t limit; /* 0: none */
    uint64_t drawn;
};

struct model_scope {
    size_t allocation; /* the limits; 0: none */
    size_t memory;
    size_t grace;
    size_t libc;                   /* what libc may have beyond that */
    bool fails;                    /* STINT_FAIL */
    struct model_account *account; /* NULL: none, or a scope further out charges it already, */
    struct model_account *charged; /* as it does from here upwards */
    uint64_t begin;                /* what had been charged when it opened */
    uint64_t granted;              /* by the account */
    size_t held_least;
    size_t held_most;
    unsigned masks;
    stint_reason tripped;
};

/* How a scope ended. */
struct model_outcome {
    stint_reason reason;
    int error;
    uint64_t allocated;
};

struct model {
    uint64_t used;
    unsigned depth; /* scopes that are open */
    struct model_scope scopes[MODEL_DEPTH];
    struct model_outcome ended[MODEL_DEPTH]; /* the last one at each depth */
};

/* An allocation: its charge, and the bytes of memory that it takes. */
struct model_request {
    uint64_t charge;
    size_t least;
    size_t most;
    bool of_libc;    /* made inside libc */
    bool of_process; /* from the process's heap */
};

enum model_answer {
    MODEL_BLOCK, /* it is made */
    MODEL_NULL,  /* it is refused */
    MODEL_LEAVE, /* and the task's code is left */
};

static inline uint64_t model_rounded(size_t size)
{
    return size == 0 ? 16 : ((uint64_t)size + 15) / 16 * 16;
}

static inline uint64_t model_aligned_charge(size_t alignment, size_t size)
{
    return model_rounded(alignment <= 16 ? size : size + alignment);
}

/* usable: size of the present block; 0: there is no block. */
static inline uint64_t model_realloc_charge(size_t usable, size_t size)
{
    bool stays = usable > 0 && size > 0 && size <= usable && size >= usable / 2;
    return stays ? 0 : model_rounded(size);
}

/* The most that mimalloc can make of a size: a quarter more, and whole steps for a large one. */
static inline size_t model_largest_block(size_t size)
{
    if (size > 32 * MIB)
        return size + 4 * MIB;
    if (size > 512 * KIB)
        return size + (size > 8 * MIB ? MIB : 256 * KIB);
    return size + size / 4 + 16;
}

/* An alignment is rounded up with a small block. */
static inline size_t model_largest_aligned_block(size_t alignment, size_t size)
{
    size_t plain = model_largest_block(alignment <= 16 ? size : size + alignment);
    return alignment > 16 && 2 * (size + alignment) > plain && size <= 16 * KIB ? 2 * (size + alignment) : plain;
}

/* The page of such a block counts when its scope has ended, because no other block can lie in it. */
static inline size_t model_largest_page(size_t block)
{
    size_t page = block <= 16 * KIB ? 64 * KIB : block <= 128 * KIB ? 512 * KIB : block <= MIB ? 4 * MIB : 0;
    return page > block ? page : block;
}

static inline struct model_scope *model_innermost(struct model *model)
{
    return &model->scopes[model->depth - 1];
}

static inline bool model_is_charged(const struct model *model, const struct model_account *account)
{
    for (unsigned i = 0; i < model->depth; i++) {
        const struct model_account *at = model->scopes[i].account;
        while (at != NULL && at != account)
            at = at->parent;
        if (at != NULL)
            return true;
    }
    return false;
}

static inline void model_open(struct model *model, struct model_scope scope)
{
    scope.begin = model->used;
    scope.charged = scope.account;
    while (scope.charged != NULL && !model_is_charged(model, scope.charged))
        scope.charged = scope.charged->parent;
    if (scope.charged == scope.account)
        scope.account = NULL;
    model->scopes[model->depth++] = scope;
}

/* --- Limits
 * -------------------------------------------------------------------------------------------------------- */

static inline void model_trip(struct model_scope *scope, stint_reason reason)
{
    if (scope != NULL && scope->tripped == STINT_REASON_NONE)
        scope->tripped = reason;
}

/* The outermost scope whose allocation limit this passes. */
static inline struct model_scope *model_passed_allocation(struct model *model, uint64_t after)
{
    for (unsigned i = 0; i < model->depth; i++) {
        struct model_scope *scope = &model->scopes[i];
        if (scope->allocation != 0 && after - scope->begin > scope->allocation)
            return scope;
    }
    return NULL;
}

static inline bool model_can_draw(const struct model_scope *scope, uint64_t bytes)
{
    const struct model_account *account = scope->account;
    while (account != scope->charged && (account->limit == 0 || account->drawn + bytes <= account->limit))
        account = account->parent;
    return account == scope->charged;
}

/* bytes may be negative, modulo 2^64. */
static inline void model_draw(const struct model_scope *scope, uint64_t bytes)
{
    for (struct model_account *account = scope->account; account != NULL && account != scope->charged;
         account = account->parent)
        account->drawn += bytes;
}

/* Finds the outermost scope whose account has no more; the others draw, from the innermost outwards. */
static inline struct model_scope *model_refused_by_account(struct model *model, uint64_t after)
{
    struct model_scope *refused = NULL;
    for (unsigned i = model->depth; i-- > 0;) {
        struct model_scope *scope = &model->scopes[i];
        if (scope->account == NULL || after - scope->begin <= scope->granted)
            continue;
        uint64_t need = after - scope->begin - scope->granted;
        uint64_t draws = model_can_draw(scope, need + MODEL_GRANT) ? need + MODEL_GRANT : need;
        if (model_can_draw(scope, draws)) {
            model_draw(scope, draws);
            scope->granted += draws;
        } else {
            refused = scope;
        }
    }
    return refused;
}

enum model_fit { MODEL_FITS, MODEL_PASSES, MODEL_UNKNOWN };

/* Does the scope's memory limit have room for it? What the scopes inside hold counts too. */
static inline enum model_fit model_fit(const struct model *model, unsigned at, const struct model_request *request)
{
    const struct model_scope *scope = &model->scopes[at];
    size_t least = request->of_process ? 0 : request->least;
    size_t most = request->of_process ? 16 : request->most;
    for (unsigned i = at; i < model->depth; i++) {
        least += model->scopes[i].held_least;
        most += model->scopes[i].held_most;
    }
    size_t overshoot = scope->memory / 128 > 64 * KIB ? scope->memory / 128 : 64 * KIB;
    if (scope->memory == 0 || most <= scope->memory)
        return MODEL_FITS;
    return least > scope->memory + overshoot ? MODEL_PASSES : MODEL_UNKNOWN;
}

/* A size that no address space has room for is refused at once. */
static inline bool model_is_measured(const struct model_request *request)
{
    return request->of_process || request->charge <= MODEL_LARGEST;
}

/* False: the rules leave open what happens, so it must not be asked for. */
static inline bool model_is_decided(const struct model *model, const struct model_request *request)
{
    for (unsigned i = 0; i < model->depth && model_is_measured(request); i++) {
        if (model_fit(model, i, request) == MODEL_UNKNOWN)
            return false;
    }
    return true;
}

static inline void model_check_memory(struct model *model, const struct model_request *request)
{
    bool measured = model_is_measured(request);
    for (unsigned i = 0; i < model->depth; i++) {
        struct model_scope *scope = &model->scopes[i];
        if (measured ? model_fit(model, i, request) == MODEL_PASSES : scope->memory != 0) {
            model_trip(scope, STINT_REASON_MEMORY_LIMIT);
            return;
        }
        if (!measured && scope->account != NULL) {
            model_trip(scope, STINT_REASON_ACCOUNT);
            return;
        }
    }
}

/* --- Interrupts
 * ---------------------------------------------------------------------------------------------------- */

/* Draws on the grace of each scope, from the innermost out to the last one that has tripped. */
static inline bool model_draw_grace(struct model *model, uint64_t charge)
{
    unsigned outermost = model->depth - 1;
    for (unsigned i = model->depth; i-- > 0;) {
        if (model->scopes[i].tripped != STINT_REASON_NONE)
            outermost = i;
    }
    for (unsigned i = outermost; i < model->depth; i++) {
        if (charge > model->scopes[i].grace)
            return false;
    }
    for (unsigned i = outermost; i < model->depth; i++)
        model->scopes[i].grace -= charge;
    return true;
}

static inline bool model_draw_libc(struct model *model, const struct model_request *request)
{
    struct model_scope *innermost = &model->scopes[model->depth - 1];
    bool has = request->of_libc && request->charge <= innermost->libc;
    innermost->libc -= has ? request->charge : 0;
    return has;
}

/* -1: none; otherwise the innermost scope that has tripped. */
static inline int model_tripped(const struct model *model)
{
    int i = (int)model->depth - 1;
    while (i >= 0 && model->scopes[i].tripped == STINT_REASON_NONE)
        i--;
    return i;
}

static inline bool model_is_due(const struct model *model)
{
    int i = (int)model->depth - 1;
    int tripped = model_tripped(model);
    while (i >= tripped && model->scopes[i].masks == 0)
        i--;
    return i < tripped;
}

static inline void model_end(struct model *model, int code);

/* The innermost scope is interrupted. True: its code is left, and the model stands where the task goes on. */
static inline bool model_deliver(struct model *model)
{
    struct model_scope *scope = model_innermost(model);
    model_trip(scope, STINT_REASON_OUTER);
    if (scope->fails)
        return false;
    model_end(model, 0);
    return true;
}

/* The innermost scope's code has come to its end, or is left. What it holds is the scope's around it, or gone. */
static inline void model_end(struct model *model, int code)
{
    const struct model_scope *scope = model_innermost(model);
    stint_reason reason = scope->tripped;
    if (reason == STINT_REASON_NONE && code != 0)
        reason = STINT_REASON_FAILED;
    uint64_t allocated = model->used - scope->begin;
    model_draw(scope, allocated - scope->granted);
    model->ended[--model->depth] = (struct model_outcome){ reason, code, allocated };
    if (model->depth == 0)
        return;
    if (reason == STINT_REASON_NONE) {
        model_innermost(model)->held_least += scope->held_least;
        model_innermost(model)->held_most += scope->held_most;
    }
    if (model_tripped(model) >= 0 && model_is_due(model))
        model_deliver(model);
}

static inline void model_mask(struct model *model)
{
    model_innermost(model)->masks++;
}

/* True: the code is left here. */
static inline bool model_unmask(struct model *model)
{
    return --model_innermost(model)->masks == 0 && model_tripped(model) >= 0 && model_is_due(model) &&
           model_deliver(model);
}

static inline enum model_answer model_allocate(struct model *model, const struct model_request *request)
{
    uint64_t after = model->used + request->charge;
    if (request->charge == 0)
        return MODEL_BLOCK;
    struct model_scope *passed = model_passed_allocation(model, after);
    model_trip(passed, STINT_REASON_ALLOCATION_LIMIT);
    if (passed == NULL && request->charge <= MODEL_LARGEST)
        model_trip(model_refused_by_account(model, after), STINT_REASON_ACCOUNT);
    model_check_memory(model, request);
    if (model_tripped(model) >= 0) {
        if (!request->of_libc && model_is_due(model))
            return model_deliver(model) ? MODEL_LEAVE : MODEL_NULL;
        if (!model_draw_libc(model, request) && !model_draw_grace(model, request->charge))
            return MODEL_NULL;
    } else if (request->charge > MODEL_LARGEST) {
        return MODEL_NULL;
    }
    model->used = after;
    return MODEL_BLOCK;
}

#endif
