/* SPDX-License-Identifier: MIT
 *
 * The peer oneTBB: stint-bench-tbb. */
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <future>
#include <memory>
#include <thread>

#include <tbb/global_control.h>
#include <tbb/task_arena.h>

#include "peer_tbb_fork.h"
#include "serve.h"

namespace
{

constexpr std::size_t stream_tasks = 100000;

std::unique_ptr<tbb::global_control> control;
std::unique_ptr<tbb::task_arena> arena;

/* By itself TBB counts the submitting thread among its workers. */
void prepare(unsigned workers)
{
    control = std::make_unique<tbb::global_control>(tbb::global_control::max_allowed_parallelism, workers + 1);
    arena = std::make_unique<tbb::task_arena>(static_cast<int>(workers), 0);
    arena->initialize();
}

std::size_t stream(double *figures)
{
    std::atomic<std::size_t> done{ 0 };
    double begin = bench_process_ns();
    for (std::size_t i = 0; i < stream_tasks; i++)
        arena->enqueue([&done] { done.fetch_add(1, std::memory_order_relaxed); });
    while (done.load(std::memory_order_relaxed) < stream_tasks)
        std::this_thread::yield();
    figures[0] = (bench_process_ns() - begin) / stream_tasks;
    return 1;
}

std::size_t ping_pong(double *figures)
{
    for (std::size_t i = 0; i < BENCH_FIGURES_MAX; i++) {
        double begin = bench_now_ns();
        auto promise = std::make_shared<std::promise<int>>();
        std::future<int> future = promise->get_future();
        arena->enqueue([promise] { promise->set_value(0); });
        future.get();
        figures[i] = bench_now_ns() - begin;
    }
    return BENCH_FIGURES_MAX;
}

void prepare_idle(unsigned workers)
{
    double unused;
    prepare(workers);
    stream(&unused);
    sleep(1);
}

} // namespace

int main(int argc, char **argv)
{
    static const bench_work works[] = {
        { "submit.future", "tbb-enqueue", prepare, stream },
        { "submit.pingpong", "tbb-future", prepare, ping_pong },
        { "idle.cpu", "tbb", prepare_idle, bench_idle },
        { "fork.fib", "tbb", tbb_fork_prepare, tbb_fork_fib },
        { "fork.queens", "tbb", tbb_fork_prepare, tbb_fork_queens },
        { "fork.uts", "tbb", tbb_fork_prepare, tbb_fork_tree },
        { "fork.sort", "tbb", tbb_fork_prepare, tbb_fork_sort },
        { "fork.fib.2", "tbb", tbb_fork_prepare, tbb_fork_fib },
        { "fork.queens.2", "tbb", tbb_fork_prepare, tbb_fork_queens },
        { "fork.uts.2", "tbb", tbb_fork_prepare, tbb_fork_tree },
        { "fork.sort.2", "tbb", tbb_fork_prepare, tbb_fork_sort },
        { nullptr, nullptr, nullptr, nullptr },
    };
    return bench_serve_main(works, argc, argv);
}
