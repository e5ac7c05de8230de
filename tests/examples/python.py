# SPDX-License-Identifier: MIT
"""The Python module: python.py INCLUDE COMPILER... In place only where Python is metered; the wall always."""
import ctypes
import functools
import os
import re
import signal
import subprocess
import sys
import threading
import time
import unittest

import stint

MIB = 1 << 20
PRELOADED = "libstint" in os.environ.get("LD_PRELOAD", "")


# --- What runs behind a wall. ---

def reverse(data):
    return data[::-1]


def refuse(data):
    raise ValueError("no " + data.decode())


def loop(_):
    while True:
        pass


def loop_in_c(_):
    re.match("(a*)*b", "a" * 100)


def grow(_=None):
    kept = []
    while True:
        kept.append("x" * 1000)


def grow_stubbornly(_=None):
    kept = []
    while True:
        try:
            kept.append("x" * 1000)
        except MemoryError:
            pass


def take_at_once(_=None):
    return bytes(1 << 30)


def crash(_):
    ctypes.string_at(0)


def end(_):
    os._exit(3)


def kill(_):
    os.kill(os.getpid(), 9)


def answer_text(_):
    return "text"


def open_file(_):
    with open("/etc/passwd", "rb") as file:
        return file.read()


def number(_):
    import random
    return b"%d %d" % (os.getpid(), random.getrandbits(64))


def print_line(data):
    print(data.decode())
    return b""


def count_usage(_):
    bytes(10 * MIB)
    return b"%d" % stint.usage().allocated


def answer_much(data):
    return bytes(int(data))


class Methods:
    @staticmethod
    def double(data):
        return data * 2


@stint.walled(memory=64 * MIB, timeout=10)
def walled(data):
    """Doc."""
    return b"<" + data + b">"


@stint.walled(timeout=0.2)
def walled_loop(_):
    loop(_)


class Layout(unittest.TestCase):
    def test_structs_are_those_of_the_headers(self):
        lines = ["#include <stint/stint.h>"]
        for name, kind in stint._kinds.items():
            lines.append(f'_Static_assert(sizeof({name}) == {ctypes.sizeof(kind)}, "{name}");')
            for field, _ in kind._fields_:
                at = getattr(kind, field)
                lines.append(f'_Static_assert(offsetof({name}, {field}) == {at.offset} && '
                             f'sizeof((({name} *)0)->{field}) == {at.size}, "{name}.{field}");')
        for name in ("FAIL", "COMMIT", "ALLOW_UNMETERED", "REASON_FAILED"):
            lines.append(f'_Static_assert(STINT_{name} == {getattr(stint, "_" + name)}, "{name}");')
        lines.append(f'_Static_assert(STINT_WALL_OPEN == {stint._OPEN} && STINT_REPORT_HEAP == {stint._HEAP} && '
                     'sizeof(stint_hook) <= 128, "enums");')
        # A variable of the environment may name another library for the compiler, too.
        environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
        subprocess.run([*COMPILER, "-x", "c", "-std=gnu11", "-fsyntax-only", "-I", INCLUDE, "-"], check=True,
                       input="\n".join(lines), universal_newlines=True, env=environment)


class Walls(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.functions = (reverse, refuse, loop, loop_in_c, grow, grow_stubbornly, take_at_once, crash, end, kill,
                         answer_text, open_file, number, count_usage, answer_much, Methods.double)
        cls.wall = stint.Wall(*cls.functions, children=2, reply_limit=MIB, input_limit=MIB,
                              imports=["random"])

    @classmethod
    def tearDownClass(cls):
        cls.wall.close()

    def ended(self, kind, reason, function, data=b"", **limits):
        with self.assertRaises(kind) as raised:
            self.wall.submit(function, data, **limits).result()
        self.assertEqual(raised.exception.reason, reason)
        self.assertEqual(self.wall.submit(reverse, b"go on").result(), b"no og")
        return raised.exception

    def test_bytes_go_in_and_out(self):
        for data in (b"", b"abc", bytes(range(256)) * 1000):
            self.assertEqual(self.wall.submit(reverse, data).result(), data[::-1])
        self.assertEqual(self.wall.submit(reverse, bytearray(b"ab")).result(), b"ba")
        self.assertEqual(self.wall.submit(Methods.double, memoryview(b"ab")).result(), b"abab")

    def test_limits_are_exceptions(self):
        limit = stint.LimitExceeded
        self.ended(limit, "deadline", loop, timeout=0.2)
        self.ended(limit, "deadline", loop_in_c, timeout=0.2)
        self.ended(limit, "cpu", loop_in_c, cpu=0.2, timeout=30)
        self.assertLess(self.ended(limit, "memory-limit", grow, memory=32 * MIB, timeout=30).usage.peak, 34 * MIB)
        self.ended(limit, "memory-limit", take_at_once, memory=32 * MIB)
        self.ended(limit, "allocation-limit", grow, allocation=32 * MIB, timeout=30)
        self.assertGreater(self.ended(limit, "deadline", loop, timeout=0.2).usage.wall, 0.19)
        error = self.ended(limit, "memory-limit", grow, memory=32 * MIB, timeout=30, report=True)
        if error.report is not None:  # a build without profiles has none
            self.assertIn("memory-limit", error.report)

    def test_code_that_takes_no_refusal_is_killed(self):
        with self.assertRaises(stint.LimitExceeded):
            self.wall.submit(grow_stubbornly, memory=16 * MIB, timeout=1).result()

    def test_deaths_are_exceptions(self):
        self.assertIn("SIGSEGV", str(self.ended(stint.Died, "crash", crash)))
        self.assertIn("3", str(self.ended(stint.Died, "exit", end)))
        self.ended(stint.Died, "killed", kill)

    def test_exceptions_come_across_as_text(self):
        error = self.ended(stint.Failed, "failed", refuse, b"thanks")
        self.assertEqual((error.kind, error.text), ("ValueError", "no thanks"))
        self.assertIn("in refuse", error.traceback)
        self.assertEqual(self.ended(stint.Failed, "failed", answer_text).kind, "TypeError")
        self.assertEqual(self.ended(stint.Failed, "failed", open_file).kind, "PermissionError")
        self.assertIn("reply_limit", self.ended(stint.Failed, "failed", answer_much, b"2000000").text)

    def test_each_task_has_a_child_of_its_own_and_other_random_numbers(self):
        answers = [self.wall.submit(number).result().split() for _ in range(3)]
        self.assertEqual(len({pid for pid, _ in answers}), 3)
        self.assertEqual(len({drawn for _, drawn in answers}), 3)

    def test_tasks_are_metered_in_the_child(self):
        future = self.wall.submit(count_usage)
        self.assertGreater(int(future.result()), 10 * MIB)
        self.assertGreater(future.usage.allocated, 10 * MIB)

    def test_many_come_in_order_and_are_taken_back(self):
        inputs = [b"%d" % i for i in range(100)]
        futures = self.wall.map(reverse, inputs)
        self.assertEqual([future.result() for future in futures], [data[::-1] for data in inputs])
        with self.assertRaises(stint.LimitExceeded):
            next(self.wall.map(loop, [b""] * 20, timeout=0.1)).result()  # closed with some under way
        future = self.wall.submit(loop, timeout=30)
        with self.assertRaises(TimeoutError):
            future.result(timeout=0.05)
        self.assertFalse(future.done())
        future.cancel()
        with self.assertRaises(stint.Cancelled):
            future.result()
        self.assertTrue(future.done())

    def test_threads_share_a_wall(self):
        wrong = []

        def ask(i):
            data = b"%d" % i * 100
            if any(self.wall.submit(reverse, data).result() != data[::-1] for _ in range(20)):
                wrong.append(i)
        threads = [threading.Thread(target=ask, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_threads_share_a_future(self):
        replies = []
        for _ in range(10):
            future = self.wall.submit(reverse, b"abc" * 1000)
            threads = [threading.Thread(target=lambda: replies.append(future.result())) for _ in range(6)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            future.cancel()  # too late
        self.assertEqual(replies, [b"cba" * 1000] * 60)

    def test_what_cannot_be_is_refused(self):
        for function in (lambda data: data, functools.partial(reverse), 3):
            with self.assertRaises((ValueError, TypeError)):
                stint.Wall(function)
        with self.assertRaisesRegex(TypeError, "no option 'childs'"):
            stint.Wall(reverse, childs=2)
        with self.assertRaises(stint.Error):
            stint.Wall(reverse, paths=["/no/such/path"])
        with self.assertRaisesRegex(TypeError, "bytes, not str"):
            self.wall.submit(reverse, "text")
        with self.assertRaisesRegex(ValueError, "input_limit"):
            self.wall.submit(reverse, bytes(2 * MIB))
        with self.assertRaisesRegex(ValueError, "not one of"):
            self.wall.submit(print_line)
        for limits in ({"memory": -1}, {"memory": 0}, {"timeout": 0}, {"timeout": float("nan")}, {"cpu": -1}):
            with self.assertRaises(ValueError):
                self.wall.submit(reverse, **limits)
        closed = stint.Wall(reverse)
        closed.close()
        closed.close()
        with self.assertRaisesRegex(stint.Error, "closed"):
            closed.submit(reverse)


class OtherWalls(unittest.TestCase):
    def test_a_child_is_used_again_if_asked(self):
        with stint.Wall(number, tasks_per_child=10, children=1, imports=["random"]) as wall:
            answers = [wall.submit(number).result() for _ in range(3)]
        self.assertEqual(len({answer.split()[0] for answer in answers}), 1)
        self.assertEqual(len(set(answers)), 3)

    def test_named_paths_and_descriptors_are_open(self):
        with stint.Wall(open_file, paths=["/etc/passwd"]) as wall:
            self.assertIn(b"root", wall.submit(open_file).result())
        with stint.Wall(open_file, open=True) as wall:
            self.assertIn(b"root", wall.submit(open_file).result())
        ours, theirs = os.pipe()
        saved = os.dup(1)
        sys.stdout.flush()
        os.dup2(theirs, 1)
        try:
            with stint.Wall(print_line, fds=[1]) as wall:
                wall.submit(print_line, b"said behind the wall").result()
        finally:
            os.dup2(saved, 1)
        self.assertEqual(os.read(ours, 100), b"said behind the wall\n")

    def test_a_wall_is_there_until_no_thread_submits_to_it(self):
        inside, destroyed_beside, errors, futures = [], [], [], []
        submit, destroy = stint._waiting.stint_submit_walled_call, stint._waiting.stint_wall_destroy

        def slow_submit(*arguments):
            inside.append(None)
            time.sleep(0.02)
            try:
                return submit(*arguments)
            finally:
                time.sleep(0.02)
                inside.pop()

        def watched_destroy(wall):
            destroyed_beside.append(len(inside))
            return destroy(wall)

        def submit_for_ever():
            try:
                while True:
                    futures.append(wall.submit(loop))
            except stint.Error as error:
                errors.append(str(error))

        wall = stint.Wall(loop, children=1, queue_capacity=2)
        stint._waiting.stint_submit_walled_call, stint._waiting.stint_wall_destroy = slow_submit, watched_destroy
        try:
            threads = [threading.Thread(target=submit_for_ever) for _ in range(4)]
            for thread in threads:
                thread.start()
            time.sleep(0.3)  # some wait in submit, as the queue is full
            wall.close()
        finally:
            stint._waiting.stint_submit_walled_call, stint._waiting.stint_wall_destroy = submit, destroy
        for thread in threads:
            thread.join(30)
        self.assertEqual(destroyed_beside, [0])
        self.assertEqual(errors, ["the wall is closed"] * 4)

    def test_a_signals_handler_closes_the_wall_that_its_thread_submits_to(self):
        wall = stint.Wall(loop, children=1, queue_capacity=2)
        before, futures = signal.signal(signal.SIGALRM, lambda *_: wall.close()), []
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.3)
            with self.assertRaisesRegex(stint.Error, "closed"):
                while True:
                    futures.append(wall.submit(loop))
        finally:
            signal.signal(signal.SIGALRM, before)

    def test_the_decorator_walls_each_call(self):
        self.assertEqual((walled(b"a"), walled(b"b"), walled.__doc__), (b"<a>", b"<b>", "Doc."))
        with self.assertRaises(stint.LimitExceeded):
            walled_loop(b"")

    def test_a_wall_at_the_top_of_a_module_is_refused_in_words(self):
        program = ("import stint\ndef f(data): return data\n"
                   "with stint.Wall(f) as wall: print(wall.submit(f, b'x').result())\n")
        path = os.path.join(os.environ.get("TMPDIR", "/tmp"), f"stint-test-{os.getpid()}.py")
        with open(path, "w") as file:
            file.write(program)
        try:
            ended = subprocess.run([sys.executable, path], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   universal_newlines=True, timeout=60)
        finally:
            os.unlink(path)
        self.assertEqual(ended.returncode, 1)
        self.assertIn("does the functions' module load by itself?", ended.stderr)


@unittest.skipIf(PRELOADED, "metered")
class Unmetered(unittest.TestCase):
    def test_in_place_is_refused_with_what_to_do(self):
        with self.assertRaisesRegex(stint.Unmetered, "LD_PRELOAD=.*libstint.*python3 -m stint PROGRAM"):
            stint.run(reverse, b"")

    def test_the_module_starts_programs_metered(self):
        script = "import stint, sys; print(stint.run(len, sys.argv[1], memory=1 << 20))"
        done = subprocess.run([sys.executable, "-m", "stint", "-c", script, "four"], stdout=subprocess.PIPE, check=True)
        self.assertEqual(done.stdout, b"4\n")


@unittest.skipUnless(PRELOADED, "not metered")
class InPlace(unittest.TestCase):
    def exceeded(self, reason, function, *arguments, **limits):
        with self.assertRaises(stint.LimitExceeded) as raised:
            stint.run(function, *arguments, **limits)
        self.assertEqual(raised.exception.reason, reason)
        self.assertEqual(stint.run(reverse, b"go on", memory=MIB), b"no og")
        return raised.exception

    def test_a_value_or_an_exception_is_the_functions(self):
        self.assertEqual(stint.run(pow, 2, 10), 1024)
        self.assertIsNone(stint.run(lambda: None, memory=MIB, timeout=10))
        with self.assertRaisesRegex(ValueError, "no b"):
            stint.run(refuse, b"b", memory=MIB)
        for kind in (KeyboardInterrupt, SystemExit):
            with self.assertRaises(kind):
                stint.run(self.throw, kind, memory=MIB)

    @staticmethod
    def throw(kind):
        raise kind

    def test_limits_of_bytes_are_exceptions(self):
        error = self.exceeded("memory-limit", grow, memory=32 * MIB)
        self.assertIsInstance(error.__cause__, (MemoryError, stint._Expired))
        self.assertLess(error.usage.peak, 38 * MIB)
        self.exceeded("memory-limit", take_at_once, memory=32 * MIB)
        error = self.exceeded("allocation-limit", grow, allocation=32 * MIB)
        self.assertLess(error.usage.allocated, 38 * MIB)
        error = self.exceeded("memory-limit", grow, memory=32 * MIB, report=True)
        if error.report is not None:
            self.assertIn("memory-limit", error.report)

    def test_code_that_takes_no_refusal_is_stopped_all_the_same(self):
        begin = time.monotonic()
        self.exceeded("memory-limit", grow_stubbornly, memory=16 * MIB)
        self.assertLess(time.monotonic() - begin, 30)

    def test_what_a_stopped_function_has_left_stays_whole(self):
        kept = {}

        def fill():
            for i in range(10**9):
                kept[f"name {i}"] = [i, str(i)]
        for _ in range(5):
            kept.clear()
            self.exceeded("memory-limit", fill, memory=8 * MIB)
            self.assertGreater(len(kept), 1000)
            self.assertTrue(all(value == [int(value[1]), str(value[0])] for value in list(kept.values())[:-1]))

    def test_finally_runs(self):
        ran = []

        def tidy(function):
            try:
                function(b"")
            finally:
                ran.append(str(len(ran)))
        self.exceeded("memory-limit", tidy, grow, memory=16 * MIB)
        self.exceeded("deadline", tidy, loop, timeout=3)
        self.assertEqual(ran, ["0", "1"])

    def test_a_time_limit_comes_between_two_instructions(self):
        begin = time.monotonic()
        self.exceeded("deadline", loop, b"", timeout=0.2)
        self.assertLess(time.monotonic() - begin, 10)
        self.assertEqual(stint.run(reverse, b"ab", timeout=10), b"ba")

    def test_times_that_are_just_enough_or_not_leave_no_exception_behind(self):
        ends = set()
        for i in range(100):
            try:
                stint.run(time.sleep, 0.002, timeout=0.002 + (i % 10 - 5) * 0.0002)
                ends.add(None)
            except stint.LimitExceeded as error:
                ends.add(error.reason)
            for _ in range(100):
                str(i)  # a late one would come here
        self.assertLessEqual(ends, {None, "deadline"})

    def test_runs_nest(self):
        def inner(seconds):
            try:
                return stint.run(loop, b"", timeout=seconds)
            except stint.LimitExceeded as error:
                return error.reason
        self.assertEqual(stint.run(inner, 0.1, timeout=20), "deadline")
        self.exceeded("deadline", inner, 20, timeout=0.2)

        def inner_bytes(size):
            try:
                return stint.run(grow, b"", memory=size)
            except stint.LimitExceeded as error:
                return error.reason
        self.assertEqual(stint.run(inner_bytes, 8 * MIB, memory=64 * MIB), "memory-limit")
        self.exceeded("memory-limit", inner_bytes, 64 * MIB, memory=8 * MIB)

    def test_each_thread_has_its_own(self):
        ends = []

        def end_each(function, **limits):
            try:
                ends.append(stint.run(function, b"ab", **limits))
            except stint.LimitExceeded as error:
                ends.append(error.reason)
        threads = [threading.Thread(target=end_each, args=(loop,), kwargs={"timeout": 0.3}),
                   threading.Thread(target=end_each, args=(grow,), kwargs={"memory": 16 * MIB}),
                   threading.Thread(target=end_each, args=(reverse,), kwargs={"memory": 16 * MIB})]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(set(ends), {"deadline", "memory-limit", b"ba"})

    def test_many_runs_leave_no_memory(self):
        names = []

        def work(i):
            names.append("name %d" % i)
            return [str(number) for number in range(2000)]

        def resident():
            with open("/proc/self/statm") as file:
                return int(file.read().split()[1]) * 4096
        for i in range(300):
            stint.run(work, i)
            before = resident() if i == 100 else 0 if i < 100 else before
        self.assertLess(resident(), before + 48 * MIB)

    def test_what_cannot_be_is_refused(self):
        async def later():
            pass

        def each():
            yield
        for function in (later, each):
            with self.assertRaises(TypeError):
                stint.run(function)
        for limits in ({"memory": -1}, {"allocation": 1.5}, {"timeout": -1}):
            with self.assertRaises(ValueError):
                stint.run(reverse, b"", **limits)

    def test_usage_tells_what_was_taken(self):
        self.assertIsNone(stint.usage())
        used = stint.run(lambda: (bytes(10 * MIB), stint.usage())[1])
        self.assertGreater(used.allocated, 10 * MIB)


if __name__ == "__main__":
    INCLUDE, COMPILER = sys.argv[1], sys.argv[2:]
    unittest.main(argv=sys.argv[:1], verbosity=2)
