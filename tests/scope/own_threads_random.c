/* SPDX-License-Identifier: MIT
 *
 * Libraries that start threads of their own, in tasks that are interrupted at random points: a pool of plain threads,
 * libzstd's workers, libgomp's team. Whatever becomes of a task, its end comes, nothing of it stays, and the next one
 * has right results. With a number as its argument: so many interrupts. */
#include "support.h"

#include <omp.h>
#include <zstd.h>

#define PIECES 24
#define TEXT (768 * KIB)
#define DEFAULT_ROUNDS 60

static unsigned rounds = DEFAULT_ROUNDS;

/* --- A pool as libraries have them: a queue under a lock, and a condition for each side --- */

struct pool {
    pthread_mutex_t lock;
    pthread_cond_t given;
    pthread_cond_t done;
    int next, finished, wanted;
    char *results[PIECES];
};

static char *work(int piece)
{
    char *line = NULL;
    for (int i = 0; i < 50; i++) {
        char *longer = malloc(200 + (size_t)i);
        if (longer != NULL)
            snprintf(longer, 200, "%d of %d", piece, i);
        free(line);
        line = longer;
    }
    return line;
}

static void *work_for(void *arg)
{
    struct pool *pool = arg;
    pthread_mutex_lock(&pool->lock);
    while (pool->next < PIECES) {
        if (pool->next == pool->wanted) {
            pthread_cond_wait(&pool->given, &pool->lock);
            continue;
        }
        int piece = pool->next++;
        pthread_mutex_unlock(&pool->lock);
        char *result = work(piece);
        pthread_mutex_lock(&pool->lock);
        pool->results[piece] = result;
        pool->finished++;
        pthread_cond_signal(&pool->done);
    }
    pthread_cond_broadcast(&pool->given);
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

static int use_pool(void *unused, void **value)
{
    pthread_t ids[3];
    (void)unused;
    struct pool *pool = calloc(1, sizeof *pool);
    if (pool == NULL)
        return ENOMEM;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->given, NULL);
    pthread_cond_init(&pool->done, NULL);
    for (int i = 0; i < 3; i++) {
        if (pthread_create(&ids[i], NULL, work_for, pool) != 0)
            return EAGAIN;
    }
    pthread_mutex_lock(&pool->lock);
    for (int i = 0; i < PIECES; i++) {
        pool->wanted++;
        pthread_cond_signal(&pool->given);
        while (pool->finished < i - 4)
            pthread_cond_wait(&pool->done, &pool->lock);
    }
    pthread_mutex_unlock(&pool->lock);
    for (int i = 0; i < 3; i++)
        pthread_join(ids[i], NULL);
    for (int i = 0; i < PIECES; i++) {
        char wanted[32];
        snprintf(wanted, sizeof wanted, "%d of 49", i);
        if (pool->results[i] == NULL || strcmp(pool->results[i], wanted) != 0)
            return EBADMSG;
        free(pool->results[i]);
    }
    free(pool);
    *value = NULL;
    return 0;
}

/* --- libzstd --- */

static char text[TEXT];

static void write_text(void)
{
    uint64_t state = 5;
    for (size_t i = 0; i < TEXT; i++)
        text[i] = (char)('a' + random_below(&state, 4) * random_below(&state, 4));
}

static int compress(void *unused, void **value)
{
    (void)unused;
    (void)value;
    ZSTD_CCtx *context = ZSTD_createCCtx();
    size_t room = ZSTD_compressBound(TEXT);
    char *packed = malloc(room);
    char *back = malloc(TEXT);
    if (context == NULL || packed == NULL || back == NULL)
        return ENOMEM;
    ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, 1);
    ZSTD_CCtx_setParameter(context, ZSTD_c_nbWorkers, 2);
    ZSTD_CCtx_setParameter(context, ZSTD_c_jobSize, 512 << 10);
    size_t size = ZSTD_compress2(context, packed, room, text, TEXT);
    if (ZSTD_isError(size))
        return ENOMEM;
    bool right = ZSTD_decompress(back, TEXT, packed, size) == TEXT && memcmp(back, text, TEXT) == 0;
    ZSTD_freeCCtx(context);
    free(packed);
    free(back);
    return right ? 0 : EBADMSG;
}

/* --- libgomp --- */

static int use_team(void *unused, void **value)
{
    long sum = 0;
    int failed = 0;
    (void)unused;
    (void)value;
#pragma omp parallel for num_threads(3) reduction(+ : sum) reduction(+ : failed)
    for (long i = 0; i < 300; i++) {
        char *block = malloc(3000);
        failed += block == NULL;
        sum += i;
        free(block);
    }
    return sum != 300 * 299 / 2 ? EBADMSG : failed > 0 ? ENOMEM : 0;
}

/* --- Interrupts --- */

static stint_outcome run_limited(stint_fn *fn, size_t allocation, stint_on_interrupt mode)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.threads = STINT_THREADS_CHARGED;
    options.on_interrupt = mode;
    options.budget.allocation = allocation;
    return run_task(fn, NULL, &options);
}

static int threads_now(void)
{
    char line[256];
    int count = 0;
    FILE *status = fopen("/proc/self/status", "r");
    while (status != NULL && fgets(line, sizeof line, status) != NULL && sscanf(line, "Threads: %d", &count) != 1)
        ;
    if (status != NULL)
        fclose(status);
    return count;
}

/* The kernel counts one that has been joined for a moment longer. */
static void assert_threads_are(int wanted)
{
    for (int i = 0; i < 2000 && threads_now() != wanted; i++)
        usleep(500);
    assert_int_equal(threads_now(), wanted);
}

static void interrupt_at_random_points(stint_fn *fn, uint64_t seed)
{
    uint64_t state = seed;
    stint_outcome whole = run_limited(fn, SIZE_MAX, STINT_JUMP);
    assert_ok(whole);
    run_limited(fn, 200 * KIB, STINT_JUMP); /* which may start the watch */
    usleep(20000);
    int threads = threads_now();
    unsigned stopped = 0;
    for (unsigned i = 0; i < rounds; i++) {
        size_t limit = 1 + random_below(&state, whole.usage.allocated + whole.usage.allocated / 16);
        /* libzstd 1.5.4 reads through the pointer to a job's context where it has had no memory for that. */
        bool fails = i % 4 == 3 && fn != compress;
        stint_outcome outcome = run_limited(fn, limit, fails ? STINT_FAIL : STINT_JUMP);
        if (outcome.status != STINT_OK) {
            assert_limit_passed(outcome);
            stopped++;
        }
        assert_int_equal(outcome.usage.kept, 0);
        assert_threads_are(threads);
        if (i % 16 == 15)
            assert_ok(run_limited(fn, SIZE_MAX, STINT_JUMP));
    }
    assert_true(stopped > rounds / 2);
}

TEST(a_pool_of_plain_threads)
{
    interrupt_at_random_points(use_pool, 11);
}

TEST(the_workers_of_libzstd)
{
    write_text();
    interrupt_at_random_points(compress, 12);
}

TEST(a_team_of_libgomp)
{
    interrupt_at_random_points(use_team, 13);
}

/* A token comes at whatever point the time falls on, in waits too. */
struct setting {
    stint_token *token;
    uint64_t after_ns;
};

static void *set_token(void *arg)
{
    const struct setting *setting = arg;
    struct timespec time = { .tv_nsec = (long)setting->after_ns };
    nanosleep(&time, NULL);
    stint_token_set(setting->token);
    return NULL;
}

TEST(at_any_time)
{
    static stint_fn *const functions[] = { use_pool, compress, use_team };
    uint64_t random = 14;
    for (unsigned i = 0; i < rounds / 2; i++) {
        struct setting setting = { .after_ns = random_below(&random, 3 * MS) };
        pthread_t setter;
        assert_int_equal(stint_token_create(NULL, &setting.token), 0);
        assert_int_equal(pthread_create(&setter, NULL, set_token, &setting), 0);
        stint_options options = STINT_OPTIONS_INIT;
        options.threads = STINT_THREADS_CHARGED;
        options.token = setting.token;
        options.preemptible = i % 2 != 0;
        stint_outcome outcome = run_task(functions[i % 3], NULL, &options);
        if (outcome.status != STINT_OK)
            assert_cancelled(outcome, STINT_REASON_TOKEN);
        pthread_join(setter, NULL);
        stint_token_release(setting.token);
    }
    for (size_t i = 0; i < 3; i++)
        assert_ok(run_limited(functions[i], SIZE_MAX, STINT_JUMP));
}

int main(int argc, char **argv)
{
    if (argc > 1)
        rounds = (unsigned)strtoul(argv[1], NULL, 10);
    omp_set_dynamic(0);
    return run_all_tests(NULL, NULL);
}
