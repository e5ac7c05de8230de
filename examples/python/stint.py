# SPDX-License-Identifier: MIT
"""Python functions within limits: in place, or behind a wall. docs/python.md is the manual.

    value = stint.run(function, *arguments, memory=64 << 20, timeout=2)

    with stint.Wall(parse) as wall:
        reply = wall.submit(parse, b"...", memory=64 << 20, timeout=2).result()

In place nothing happens to CPython but what may happen to it anyway: an allocation fails, which is a MemoryError, or
an exception is raised between two of its instructions. What cannot be stopped so is stopped behind the wall, where the
function runs in a process of its own that is killed.
"""
import atexit
import collections
import ctypes
import errno
import functools
import importlib
import inspect
import json
import os
import shutil
import sys
import sysconfig
import threading
import time
import traceback
import types

__all__ = ["run", "usage", "Wall", "walled", "Usage", "Error", "Unmetered", "Stopped", "LimitExceeded", "Cancelled",
           "Died", "Failed"]

# --- The library, and its structs. -----------------------------------------------------------------------------------

_NAME = os.environ.get("STINT_LIBRARY", "libstint.so.0")
_lib = ctypes.PyDLL(_NAME)  # for what calls Python back, and what is short
_waiting = ctypes.CDLL(_NAME)  # other threads run meanwhile
_libc = ctypes.CDLL(None, use_errno=True)

_size, _u64, _unsigned, _int = ctypes.c_size_t, ctypes.c_uint64, ctypes.c_uint, ctypes.c_int
_bool, _text, _pointer = ctypes.c_bool, ctypes.c_char_p, ctypes.c_void_p


_kinds = {}  # the structs by their names


def _struct(name, fields):
    """A struct that begins with "size" can grow: the library is told how much of it this module knows."""
    kind = _kinds[name] = type(name, (ctypes.Structure,), {"_fields_": fields})
    return (lambda: kind(ctypes.sizeof(kind))) if fields[0][0] == "size" else kind


_Budget = _struct("stint_budget", [
    ("allocation", _size), ("memory", _size), ("wall_ns", _u64), ("cpu_ns", _u64), ("run_ns", _u64)])
_CUsage = _struct("stint_usage", [(name, _u64) for name in (
    "allocated", "peak", "samples", "deferred", "kept", "wall_ns", "queued_ns", "cpu_ns", "committed")])
_Outcome = _struct("stint_outcome", [
    ("status", _int), ("reason", _int), ("error", _int), ("value", _pointer), ("usage", _CUsage),
    ("payload", _pointer), ("payload_size", _size), ("message", ctypes.c_char * 96)])
_Options = _struct("stint_options", [
    ("size", _size), ("budget", _Budget), ("token", _pointer), ("on_interrupt", _int), ("report", _int),
    ("grace", _size), ("name", _text), ("preemptible", _bool), ("account", _pointer), ("priority", _int),
    ("wipe", _bool), ("flags", _unsigned), ("discard", _bool), ("context", _pointer), ("completions", _pointer),
    ("data", _pointer), ("sample_rate", ctypes.c_double), ("warn", _unsigned)])
_PoolOptions = _struct("stint_pool_options", [
    ("size", _size), ("workers", _unsigned), ("report", _int), ("queue_capacity", _size), ("name", _text),
    ("pinned", _bool), ("substitutes", _unsigned), ("hold_near_memory_limit", _bool), ("flags", _unsigned),
    ("overdue_ns", _u64), ("on_overdue", _pointer), ("overdue_arg", _pointer), ("worker_begins", _pointer),
    ("worker_ends", _pointer), ("worker_data", _pointer), ("stack_size", _size)])
_Path = _struct("stint_wall_path", [("path", _text), ("writable", _bool)])
_WallOptions = _struct("stint_wall_options", [
    ("size", _size), ("name", _text), ("setup", _pointer), ("setup_arg", _pointer), ("program", _text),
    ("arguments", ctypes.POINTER(_text)), ("children", _unsigned), ("tasks_per_child", _unsigned),
    ("spare", _unsigned), ("sandbox", _int), ("paths", ctypes.POINTER(_Path)), ("path_count", _size),
    ("filter", _pointer), ("filter_arg", _pointer), ("fds", ctypes.POINTER(_int)), ("fd_count", _size),
    ("input_limit", _size), ("reply_limit", _size), ("memory", _size), ("descriptors", _unsigned),
    ("processes", _unsigned), ("file_size", _size), ("stack", _size), ("cgroup", _text), ("message", _pointer),
    ("message_size", _size), ("queue_capacity", _size), ("flags", _unsigned)])
_Call = _struct("stint_wall_call", [
    ("size", _size), ("fn", _pointer), ("entry", _text), ("input", _text), ("input_size", _size),
    ("fds", ctypes.POINTER(_int)), ("fd_count", _size), ("wait_ns", _u64)])
_Link = _struct("stint_link_report", [
    ("size", _size), ("metered", _bool), ("locked", _bool), ("unwinds", _bool), ("function", _text),
    ("module", _text), ("off", _text)])
_Task = ctypes.CFUNCTYPE(_int, ctypes.py_object, _pointer)
_Walled = ctypes.CFUNCTYPE(_int, _pointer, _size, _pointer)


class _Entry(ctypes.Structure):
    _fields_ = [("name", _text), ("fn", _Walled)]


_FAIL, _COMMIT, _ALLOW_UNMETERED, _OPEN, _HEAP, _REASON_FAILED = 1, 4, 1, 1, 2, 1
_GRACE = 4 << 20  # to tidy up with: some of pymalloc's arenas, of 1 MiB
_by = ctypes.byref

for _library in (_lib, _waiting):
    _library.stint_status_name.restype = _library.stint_reason_name.restype = _text
    _library.stint_free.argtypes = _library.stint_report_release.argtypes = [_pointer]
    _library.stint_future_release.argtypes = _library.stint_future_cancel.argtypes = [_pointer]
    _library.stint_future_wait_for.argtypes = [_pointer, _u64, _pointer]
    _library.stint_future_is_ready.argtypes = [_pointer]
    _library.stint_future_is_ready.restype = _bool
    _library.stint_future_report.argtypes = [_pointer, _pointer]
    _library.stint_report_write.argtypes = [_pointer, _int, _int]
    _library.stint_run_reported.argtypes = [_Task, ctypes.py_object, _pointer, _pointer, _pointer]
    _library.stint_wall_destroy.argtypes = [_pointer]
    _library.stint_submit_walled_call.argtypes = [_pointer] * 5
    _library.stint_reply_write.argtypes = [_pointer, _text, _size]
    _library.stint_fail.argtypes = [_int, _text, _size]
    _library.stint_fail.restype = _int

# --- What can go wrong. ----------------------------------------------------------------------------------------------

Usage = collections.namedtuple("Usage", "allocated peak wall cpu")
Usage.__doc__ = "Bytes allocated in all, bytes held at most, seconds, and seconds of processor (0 without that limit)."


def _usage(usage):
    return Usage(usage.allocated, usage.peak, usage.wall_ns / 1e9, usage.cpu_ns / 1e9)


class Error(Exception):
    """What this module raises, except for a TypeError or ValueError about its arguments."""


class Unmetered(Error):
    """Python's malloc is not stint's, so nothing can be metered in place."""


class Stopped(Error):
    """A task that did not return. reason is one of stint's words, usage what it took, report a text or None."""

    def __init__(self, reason, usage=None, report=None, detail=""):
        super().__init__(reason + (": " + detail if detail else ""))
        self.reason, self.usage, self.report = reason, usage, report


class LimitExceeded(Stopped):
    """It has passed a limit: reason is "allocation-limit", "memory-limit", "deadline", "cpu", ..."""


class Cancelled(Stopped):
    """It has been cancelled, or its wall was closed: "token", "shutdown"."""


class Died(Stopped):
    """Its process ended: "crash", "exit", "killed", "broken"."""


class Failed(Stopped):
    """A walled function has raised an exception: its type's name, its text, and its traceback as a text."""

    def __init__(self, kind, text, trace, usage=None):
        super().__init__("failed", usage, None, f"{kind}: {text}" if text else kind)
        self.kind, self.text, self.traceback = kind, text, trace


_DEATHS = ("crash", "exit", "killed", "broken")


def _check(number, what):
    if number == errno.EINVAL:
        raise ValueError(f"{what}: a value is out of its range")
    if number != 0:
        raise Error(f"{what}: {os.strerror(number)}")


def _stopped(outcome, report=None):
    reason = _lib.stint_reason_name(outcome.reason).decode()
    kind = Died if reason in _DEATHS else Cancelled if reason in ("token", "shutdown") else LimitExceeded
    return kind(reason, _usage(outcome.usage), report, outcome.message.decode(errors="replace"))


def _read_report(report):
    """The text of a report, which is given back. None: there is none, or the build writes none."""
    if not report:
        return None
    file = os.memfd_create("stint-report")
    try:
        error = _waiting.stint_report_write(report, file, 0)
        return os.pread(file, os.fstat(file).st_size, 0).decode(errors="replace") if error == 0 else None
    finally:
        os.close(file)
        _lib.stint_report_release(report)


def _nanoseconds(seconds):
    if seconds is None:
        return 0
    if not seconds > 0:
        raise ValueError(f"a time is above 0 seconds, not {seconds!r}")
    return min(int(seconds * 1e9) or 1, 2**63)


def _bytes(name, size):
    if size is None:
        return 0
    if not isinstance(size, int) or size < 1:
        raise ValueError(f"{name} is a number of bytes above 0, not {size!r}")
    return size


def _options(allocation, memory, report):
    options = _Options()
    options.budget = _Budget(_bytes("allocation", allocation), _bytes("memory", memory))
    options.on_interrupt = _FAIL
    options.report = _HEAP if report else 0
    return options


# --- In place. -------------------------------------------------------------------------------------------------------


class _Expired(BaseException):
    """Raised in a function that is to stop; not an Exception, as few handlers should take it."""


class _Timespec(ctypes.Structure):
    _fields_ = [("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long)]


class _Alarm:
    """Raises _Expired in the thread that made it, once, between two instructions of the interpreter's: when the time is
    up, or a limit of bytes has been passed, of which a hook tells. Whether it rings or is stopped is settled by who
    takes the one element of `armed`."""

    current = threading.local()

    def __init__(self, nanoseconds):
        self.thread = threading.get_ident()
        self.outer = getattr(_Alarm.current, "alarm", None)
        self.armed, self.rang, self.begun = [None], False, False
        self.semaphore, self.hook = (_u64 * 8)(), (_u64 * 16)()
        _libc.sem_init(self.semaphore, 0, 0)
        until = time.monotonic_ns() + (nanoseconds or 10**18)
        self.until = _Timespec(*divmod(until, 10**9))
        self.watcher = threading.Thread(target=self.watch, daemon=True)
        self.watcher.start()
        _Alarm.current.alarm = self

    def watch(self):
        while _libc.sem_clockwait(self.semaphore, time.CLOCK_MONOTONIC, _by(self.until)) != 0 and \
                ctypes.get_errno() == errno.EINTR:
            continue
        while not self.begun and self.armed:
            time.sleep(0.0001)  # the exception would be lost in the frames of ctypes
        try:
            self.armed.pop()
        except IndexError:
            return
        self.rang = True
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self.thread), ctypes.py_object(_Expired))

    def stop(self):
        """May be called again, as it must be where the exception has come in its midst."""
        try:
            self.armed.pop()
            _libc.sem_post(self.semaphore)
        except IndexError:
            self.watcher.join()
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self.thread), None)
        _Alarm.current.alarm = self.outer


def _raise_of_outer(alarm):
    """What was taken back may have been that of a run around this one."""
    while alarm is not None:
        if alarm.rang:
            raise _Expired
        alarm = alarm.outer


class _Job:
    __slots__ = ("function", "arguments", "alarm", "value", "error")


def _run_job(job, _value):
    alarm = job.alarm
    try:
        if alarm is None:
            job.value = job.function(*job.arguments)
        else:
            _lib.stint_hook_push(alarm.hook, _libc.sem_post, alarm.semaphore)
            alarm.begun = True
            try:
                job.value = job.function(*job.arguments)
            finally:
                _lib.stint_hook_pop(alarm.hook)
    except BaseException as error:
        job.error = error
    return 0


_run_job_in_c = _Task(_run_job)


@functools.lru_cache(None)
def _refuse_unmetered():
    link = _Link()
    error = _lib.stint_link_check(_by(link))
    if error == 0:
        return
    why = f"its {link.function.decode()} is not stint's" if link.function else (link.off or b"").decode()
    raise Unmetered(f"this Python is not metered ({why}). Start it with LD_PRELOAD={_path()}, or as "
                    "`python3 -m stint PROGRAM`; or use stint.Wall, which needs neither")


def run(function, *arguments, allocation=None, memory=None, timeout=None, report=False):
    """function(*arguments), here, within limits; its value.

    allocation and memory are bytes that this thread has from the system: the allocation that would pass one fails, as
    MemoryError, and what catches that is stopped at its next instruction. timeout is in seconds: past it the function
    is stopped at its next instruction. Then LimitExceeded is raised. Nothing is rolled back."""
    _refuse_unmetered()
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        raise Unmetered("a Python without the GIL has an allocator of its own: use stint.Wall")
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function) or \
            inspect.isasyncgenfunction(function):
        raise TypeError("a coroutine or generator runs when this has returned: give a plain function")
    options = _options(allocation, memory, report)
    options.flags, options.grace = _COMMIT, _GRACE
    time_limit = _nanoseconds(timeout)
    job, outcome, made, error = _Job(), _Outcome(), _pointer(), 0
    job.function, job.arguments, job.error, job.value, job.alarm = function, arguments, None, None, None
    outer = getattr(_Alarm.current, "alarm", None)
    try:
        try:
            if time_limit or allocation or memory:
                job.alarm = _Alarm(time_limit)
            error = _lib.stint_run_reported(_run_job_in_c, job, _by(options), _by(outcome), _by(made))
        finally:
            if job.alarm is not None:
                job.alarm.stop()
    except _Expired:
        if job.alarm is None or not job.alarm.rang:
            raise  # of a run around this one
        job.alarm.stop()
    alarm, raised, value = job.alarm, job.error, job.value
    job = None  # an exception's frames refer to it
    try:
        _check(error, "stint.run")
        if raised is not None and not isinstance(raised, (Exception, _Expired)):
            raise raised  # such as KeyboardInterrupt
        _raise_of_outer(outer)
        if outcome.status != 0 and outcome.reason != _REASON_FAILED:
            raise _stopped(outcome, _read_report(made)) from raised
        if alarm is not None and alarm.rang:
            raise LimitExceeded("deadline", _usage(outcome.usage)) from raised
        if raised is not None:
            raise raised
        return value
    finally:
        raised = None


def usage():
    """What the innermost function that runs within limits here has taken so far, behind a wall too; or None."""
    now = _CUsage()
    return _usage(now) if _lib.stint_usage_now(_by(now), None) == 0 else None


# --- Behind a wall: in the program. ----------------------------------------------------------------------------------


@functools.lru_cache(None)
def _path():
    """The file of the library that is loaded here."""
    class Info(ctypes.Structure):
        _fields_ = [("file", _text), ("base", _pointer), ("name", _text), ("address", _pointer)]
    info = Info()
    _libc.dladdr(ctypes.cast(_lib.stint_version, _pointer), _by(info))
    return os.path.realpath(info.file.decode())


@functools.lru_cache(None)
def _pool():
    """No function runs in it: a walled task needs one to be its."""
    options, pool = _PoolOptions(), _pointer()
    options.workers, options.flags = 1, _ALLOW_UNMETERED
    _check(_lib.stint_pool_create(_by(options), _by(pool)), "a pool")
    return pool


def _name_of(function):
    """[module, name] by which another process finds the function; the main module by its file, unless it has a name."""
    function = inspect.unwrap(function)
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", "")
    if module is None or not name or "<" in name or not callable(function):
        raise ValueError(f"{function!r} has no name by which another process finds it: give a function of a module")
    main = sys.modules["__main__"]
    if module == "__main__":
        spec = getattr(main, "__spec__", None)
        if spec is not None:
            module = spec.name
        elif getattr(main, "__file__", None):
            module = os.path.abspath(main.__file__)
        else:
            raise ValueError(f"{name} is of no file, which another process could read: put it into a module")
    return [module, name]


_NUMBERS = ("children", "tasks_per_child", "spare", "input_limit", "reply_limit", "memory", "descriptors",
            "processes", "file_size", "stack", "queue_capacity")


class Wall:
    """Processes that run these functions, each a function of a module from bytes to bytes. Keyword arguments: numbers
    of stint_wall_options; paths and writable (lists), fds (a list); open=True: no sandbox; cgroup; imports, the names
    of modules that are loaded beforehand, as a closed wall's children open no other files."""

    def __init__(self, *functions, paths=(), writable=(), fds=(), open=False, cgroup=None, imports=(), **numbers):
        if not functions:
            raise TypeError("a wall needs the functions that it shall run")
        if "STINT_WALL" in os.environ or _serving:
            raise Error("a wall is made while a module is loaded behind a wall: put it into a function, or below "
                        'if __name__ == "__main__"')
        names = [_name_of(function) for function in functions]
        self._wall, self._functions = None, {inspect.unwrap(f): b"%d" % i for i, f in enumerate(functions)}
        self._changed, self._is_closing, self._submitting = threading.Condition(), False, {}  # calls, by their threads
        options, message, wall = _WallOptions(), ctypes.create_string_buffer(512), _pointer()
        for name, number in numbers.items():
            if name not in _NUMBERS:
                raise TypeError(f"a wall has no option {name!r}; it has {', '.join(_NUMBERS)}")
            setattr(options, name, number)
        self._children = options.children = options.children or len(os.sched_getaffinity(0))
        options.sandbox, options.flags = _OPEN if open else 0, _ALLOW_UNMETERED
        options.name, options.cgroup = b"python", os.fsencode(cgroup) if cgroup is not None else None
        named = [(path, False) for path in paths] + [(path, True) for path in writable]
        options.paths = (_Path * len(named))(*[(os.fsencode(path), writes) for path, writes in named])
        options.fds, options.fd_count, options.path_count = (_int * len(fds))(*fds), len(fds), len(named)
        options.message, options.message_size = ctypes.cast(message, _pointer), len(message)
        program = self._program(names, imports)
        options.program, options.arguments = program[0], (_text * (len(program) + 1))(*program)
        error = _waiting.stint_wall_create(_by(options), _by(wall))
        if error != 0:
            said = message.value.decode(errors="replace") or os.strerror(error)
            raise Error(said + ("; does the functions' module load by itself? With fds=[2] its traceback is shown"
                                if error == errno.ECHILD else ""))
        self._wall = wall

    @staticmethod
    def _program(names, imports):
        env = shutil.which("env") or "/usr/bin/env"
        if any(c in _path() for c in " :"):
            raise Error(f"{_path()}: a path with a space or a colon in it cannot be preloaded")
        job = {"path": [os.path.abspath(folder) for folder in sys.path], "functions": names, "imports": list(imports)}
        start = f"import sys; sys.path[:0] = [{os.path.dirname(os.path.abspath(__file__))!r}]; import stint; stint._serve()"
        return [text.encode() for text in (env, f"LD_PRELOAD={_path()}", f"STINT_LIBRARY={_path()}", sys.executable,
                                           "-I", "-c", start, json.dumps(job))]

    def submit(self, function, data=b"", *, allocation=None, memory=None, timeout=None, cpu=None, report=False):
        """A Future of function(data) in a child. memory and allocation are bytes, timeout and cpu seconds from its
        start. Waits while more tasks are queued than the wall takes."""
        call, options, future = _Call(), _options(allocation, memory, report), _pointer()
        entry = self._functions.get(inspect.unwrap(function))
        if entry is None:
            raise ValueError(f"{function!r} is not one of the wall's functions")
        data = bytes(data) if isinstance(data, (bytes, bytearray, memoryview)) else self._refuse(data)
        call.entry, call.input, call.input_size, call.wait_ns = entry, data, len(data), 50_000_000
        options.flags, options.name = _ALLOW_UNMETERED, None
        options.budget.run_ns, options.budget.cpu_ns = _nanoseconds(timeout), _nanoseconds(cpu)
        pool, of_call, of_options, of_future = _pool(), _by(call), _by(options), _by(future)
        try:
            with self._changed:
                self._submitting[id(call)] = threading.get_ident()
            error = errno.ETIMEDOUT
            while error == errno.ETIMEDOUT:  # signals come in between, and the end of the wall
                if self._is_closing:
                    raise Error("the wall is closed")
                # No call between that and this, after which a signal's handler of this thread could close the wall.
                error = _waiting.stint_submit_walled_call(pool, self._wall, of_call, of_options, of_future)
        finally:
            with self._changed:
                self._submitting.pop(id(call), None)
                self._changed.notify_all()
        if error == errno.EMSGSIZE:
            raise ValueError(f"{len(data)} bytes are more than the wall's input_limit")
        _check(error, "submit")
        return Future(future, data, bool(report))

    @staticmethod
    def _refuse(data):
        raise TypeError(f"a walled function is given bytes, not {type(data).__name__}")

    def map(self, function, inputs, **limits):
        """A Future for each of the inputs, in their order and resolved; twice as many as children are under way."""
        waiting = collections.deque()
        try:
            for data in inputs:
                waiting.append(self.submit(function, data, **limits))
                if len(waiting) > 2 * self._children:
                    yield waiting.popleft().wait()
            while waiting:
                yield waiting.popleft().wait()
        finally:
            for future in waiting:
                future.cancel()

    def close(self):
        """Kill what runs, and end all processes of the wall. Other threads that submit to it get an Error first."""
        with self._changed:
            self._is_closing = True
            while any(thread != threading.get_ident() for thread in self._submitting.values()):
                self._changed.wait()
            wall, self._wall = self._wall, None
        if wall is not None:
            _check(_waiting.stint_wall_destroy(wall), "the wall")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Future:
    """Of a walled task. Any threads may use it; the library's future is released when none has it any more."""

    def __init__(self, future, data, reported):
        self._future, self._data, self._reported = future, data, reported  # the input must stay
        self._lock, self._reply = threading.Lock(), None

    def done(self):
        return self._data is None or _lib.stint_future_is_ready(self._future)

    def cancel(self):
        """Kill it, or take it off the queue."""
        _lib.stint_future_cancel(self._future)

    def wait(self, timeout=None):
        """Wait until it has resolved; self. Raises TimeoutError."""
        until = None if timeout is None else time.monotonic() + timeout
        while self._data is not None:
            left = 0.05 if until is None else max(0, min(0.05, until - time.monotonic()))  # signals come in between
            outcome = _Outcome()
            error = _waiting.stint_future_wait_for(self._future, int(left * 1e9), _by(outcome))
            if error == 0:
                with self._lock:
                    if self._data is not None:
                        self._take(outcome)
            elif error != errno.ETIMEDOUT:
                _check(error, "wait")
            elif until is not None and time.monotonic() >= until:
                raise TimeoutError("the task runs")
        return self

    def _take(self, outcome):
        report = _pointer()
        if outcome.status == 0:
            self._reply = ctypes.string_at(outcome.value, outcome.payload_size)
        elif self._reported and _lib.stint_future_report(self._future, _by(report)) != 0:
            report = None
        self._error = None if outcome.status == 0 else self._why(outcome, report)
        self._usage = _usage(outcome.usage)
        self._data = None  # from here on it is not taken again, whatever exception comes in between
        if outcome.status == 0:
            _lib.stint_free(outcome.value)

    @staticmethod
    def _why(outcome, report):
        text = _read_report(report)
        if _lib.stint_reason_name(outcome.reason) != b"failed":
            return _stopped(outcome, text)
        try:  # nothing that a child says is executed, and none of it is believed
            said = json.loads(ctypes.string_at(outcome.payload, outcome.payload_size)) if outcome.payload else {}
            kind, message, trace = (str(said[name]) for name in ("kind", "text", "traceback"))
        except (ValueError, KeyError, TypeError, RecursionError):
            kind, message, trace = "OSError", os.strerror(outcome.error), ""
        return Failed(kind, message, trace, _usage(outcome.usage))

    def result(self, timeout=None):
        """The bytes that the function has returned; or LimitExceeded, Cancelled, Died, Failed is raised."""
        self.wait(timeout)
        if self._error is not None:
            raise self._error
        return self._reply

    @property
    def usage(self):
        """Of a task that has resolved."""
        return self.wait()._usage

    def __del__(self, release=_lib.stint_future_release):  # this module's names may be gone by now
        if self._data is not None:
            self.cancel()
            self.wait()
        release(self._future)


def walled(*, allocation=None, memory=None, timeout=None, cpu=None, report=False, **wall):
    """A decorator: each call of the function runs behind a wall of its own, which is made at the first call."""
    limits = dict(allocation=allocation, memory=memory, timeout=timeout, cpu=cpu, report=report)

    def decorate(function):
        lock, made = threading.Lock(), []

        @functools.wraps(function)
        def call(data=b""):
            with lock:
                if not made:
                    made.append(Wall(function, **wall))
                    atexit.register(made[0].close)
            return made[0].submit(function, data, **limits).result()
        return call
    return decorate


# --- Behind a wall: in its template and its children. ----------------------------------------------------------------

_serving = []  # the number of this process, when there is one


def _load(module, name):
    if os.path.isabs(module):  # the main module of the program, under another name: it is not to run as one
        import runpy
        loaded = sys.modules["__mp_main__"] = types.ModuleType("__mp_main__")
        loaded.__dict__.update(runpy.run_path(module, run_name="__mp_main__"))
    else:
        loaded = importlib.import_module(module)
    return inspect.unwrap(functools.reduce(getattr, name.split("."), loaded))


def _say_failure(error):
    said = {"kind": type(error).__qualname__[:200], "text": str(error)[:2000],
            "traceback": "".join(traceback.format_exception(type(error), error, error.__traceback__))[-20000:]}
    text = json.dumps(said).encode()
    return _lib.stint_fail(errno.EBADMSG, text, len(text))


def _served(function):
    def serve(data, size, reply):
        if _serving != [os.getpid()]:  # the first task of this child
            ctypes.pythonapi.PyOS_AfterFork_Child()
            _serving[:] = [os.getpid()]
        try:
            result = function(ctypes.string_at(data, size))
            if not isinstance(result, (bytes, bytearray, memoryview)):
                raise TypeError(f"a walled function returns bytes, not {type(result).__name__}")
            result = bytes(result)
            error = _lib.stint_reply_write(reply, result, len(result))
            if error == errno.EMSGSIZE:
                raise ValueError(f"{len(result)} bytes are more than the wall's reply_limit")
            return error
        except BaseException as error:
            try:
                return _say_failure(error)
            except BaseException:
                return errno.ENOMEM  # the limit has been passed: nothing can be said
        finally:
            for stream in (sys.stdout, sys.stderr):
                if stream is not None:
                    stream.flush()  # the process ends without
    return _Walled(serve)


def _serve():
    """The main function of a template. The fork handlers of Python's that come before a fork run once, and what comes
    after it in each child; between the two this process does not come back to Python."""
    job = json.loads(sys.argv[1])
    sys.path[:] = job["path"]
    _serving.append(0)
    os.environ.pop("LD_PRELOAD", None)
    for module in job["imports"]:
        importlib.import_module(module)
    served = [_served(_load(module, name)) for module, name in job["functions"]]
    entries = (_Entry * len(served))(*[(str(i).encode(), fn) for i, fn in enumerate(served)])
    ctypes.pythonapi.PyOS_BeforeFork()
    error = _lib.stint_wall_serve(entries, _size(len(served)))
    ctypes.pythonapi.PyOS_AfterFork_Parent()
    raise SystemExit(f"stint: {os.strerror(error)}: this is a part of another program, which starts it")


def _main():
    """python3 -m stint PROGRAM ARGUMENTS: with stint preloaded, so that stint.run works."""
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        print("usage: python3 -m stint [PYTHON-OPTION...] PROGRAM [ARGUMENT...]\n\n"
              "Runs a Python program with stint preloaded, so that stint.run can meter it.")
        raise SystemExit(len(sys.argv) < 2 and 2)
    before = os.environ.get("LD_PRELOAD")
    environment = dict(os.environ, LD_PRELOAD=_path() + (":" + before if before else ""))
    os.execve(sys.executable, [sys.executable] + sys.argv[1:], environment)


if __name__ == "__main__":
    _main()
