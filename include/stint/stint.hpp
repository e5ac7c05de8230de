/* SPDX-License-Identifier: MIT
 *
 * stint for C++17: tasks that are lambdas, futures that hold their values, and objects that give back what they own.
 * All of it is in headers; programs link the same library. docs/cpp.md is the guide.
 *
 *     #include <cstdio>
 *     #include <stint/stint.hpp>
 *     #include <string>
 *
 *     int main()
 *     {
 *         stint::Pool pool;
 *         auto future = pool.submit([] { return std::string(100, 'x'); }, stint::Options().memory(64 << 20));
 *         std::string text = future.get(); // or throws stint::error, stint::cancelled
 *         std::printf("%zu\n", text.size());
 *     }
 *
 * A task ends in one of three ways. It returned: its value, and the memory the value owns, is the caller's. It threw,
 * or passed a limit: get() throws stint::error, with the reason and the exception's message. It was cancelled: get()
 * throws stint::cancelled. In the last two all that it allocated is gone, the exception object too; the message was
 * copied.
 *
 * Tasks are interrupted by STINT_UNWIND here unless Options says otherwise: destructors run. With STINT_JUMP they do
 * not: then only what a Guard releases is released, and memory.
 *
 * What is thrown inside a task, in a Fork or in a loop over several threads, leaves from the join or the loop as it is.
 *
 * Waiting, the end of a Mask and of a Guard, and every allocation may be where a task is interrupted. So the
 * destructors of Mask and Guard may throw; a Future's does not, and makes interrupts wait. */
#ifndef STINT_STINT_HPP
#define STINT_STINT_HPP

#include <stint/coroutine.hpp>
#include <stint/detail/completions.hpp>
#include <stint/detail/context.hpp>
#include <stint/detail/fork.hpp>
#include <stint/detail/future.hpp>
#include <stint/detail/group.hpp>
#include <stint/detail/guard.hpp>
#include <stint/detail/options.hpp>
#include <stint/detail/outcome.hpp>
#include <stint/detail/parallel.hpp>
#include <stint/detail/pool.hpp>
#include <stint/detail/serial.hpp>
#include <stint/detail/wall.hpp>
#include <stint/detail/when.hpp>
#include <stint/stint.h>

#endif
