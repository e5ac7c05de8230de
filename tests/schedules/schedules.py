# SPDX-License-Identifier: MIT
"""Attacks on the schedule of the library's threads and processes: what a loaded, stopped or badly set system does to a program,
done at random to the test programs that check results. scripts/attack --schedules runs them; attack() is what it calls."""
import contextlib
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PATIENCE = 120  # seconds, after which a program that does not run is taken to hang
LONGEST = 900  # and one that does is left alone
AGAIN = 3  # what fails is tried so often again with its seed

# Programs that check results, each with arguments for a run of a second or two; {seed}: the program has one of its own.
VICTIMS = {
    "random_pools": ["500", "{seed}"], "ending_pools": ["1", "{seed}"], "requests": [], "storm": ["200"], "account": [],
    "serial": [], "when_many": [], "completions": [], "then": [], "fork_stop": [], "fork_join": [], "set_budget": [],
    "branch_budget": [], "global": [], "global_looks": [], "expiry": [], "delayed": [], "deadline": [], "timers": [],
    "walled": [], "walled_futures": [],
}
ALL = list(VICTIMS)


def processors():
    return sorted(os.sched_getaffinity(0))


class Process:
    """A victim that runs, and what an attack wants of it."""

    def __init__(self, pid):
        self.pid, self.ended = pid, threading.Event()

    def threads(self):
        try:
            return [int(name) for name in os.listdir(f"/proc/{self.pid}/task")]
        except OSError:
            return []

    def children(self):
        """The processes below it."""
        found, queue = [], [self.pid]
        while queue:
            pid = queue.pop()
            with contextlib.suppress(OSError):
                for thread in os.listdir(f"/proc/{pid}/task"):
                    with open(f"/proc/{pid}/task/{thread}/children") as file:
                        more = [int(word) for word in file.read().split()]
                    found += more
                    queue += more
        return found

    @staticmethod
    def state(pid):
        with contextlib.suppress(OSError):
            with open(f"/proc/{pid}/stat") as file:
                return file.read().rpartition(")")[2].split()[0]
        return "X"


# --- The attacks: what each does to a process until it has ended, in a thread of its own; returns how often. ---

def stop_now_and_then(process, dice):
    """The process, or one of the processes below it, stands still for up to a tenth of a second."""
    count = 0
    while not process.ended.wait(dice.uniform(0.001, 0.1)):
        below = process.children()
        pid = dice.choice(below) if below and dice.random() < 0.7 else process.pid
        if process.state(pid) not in "RSD":
            continue  # it has ended, or has stopped itself
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
            count += 1
            time.sleep(dice.choice([0.0005, 0.005, 0.05, 0.1]) * dice.random())
            os.kill(pid, signal.SIGCONT)
    return count


def take_processors(process, dice):
    """All threads go to one processor, or back to all; or each to one of its own."""
    count, every = 0, processors()
    while not process.ended.wait(dice.uniform(0.0005, 0.05)):
        way, one = dice.randrange(3), dice.choice(every)
        for pid in [process.pid] + process.children():
            for thread in Process(pid).threads():
                with contextlib.suppress(OSError):
                    os.sched_setaffinity(thread, [[one], every, [dice.choice(every)]][way])
        count += 1
    return count


def stay_on_one(process, dice):
    del process, dice
    return 1  # the victim was begun so


class Quota:
    """A control group in which a process may have a part of a processor."""

    def __init__(self):
        name = f"stint-attack-{os.getpid()}"
        self.old = os.path.isdir("/sys/fs/cgroup/cpu")
        self.folder = os.path.join("/sys/fs/cgroup/cpu" if self.old else "/sys/fs/cgroup", name)
        os.mkdir(self.folder)
        try:
            self.set(100)
        except OSError:
            self.remove()
            raise

    def set(self, percent):
        """Of one processor, in periods of 10 ms: so it stands still for a part of each."""
        if self.old:
            self.write("cpu.cfs_period_us", 10000)
            self.write("cpu.cfs_quota_us", percent * 100)
        else:
            self.write("cpu.max", f"{percent * 100} 10000")

    def write(self, name, value):
        with open(os.path.join(self.folder, name), "w") as file:
            file.write(str(value))

    def remove(self):
        for _ in range(100):
            try:
                return os.rmdir(self.folder)
            except OSError:
                time.sleep(0.05)  # its last process is about to end


def take_time(process, dice):
    """What it may use of the processors changes, from a tenth of one to all of one."""
    quota, count = Quota(), 0
    try:
        with contextlib.suppress(OSError):  # it has ended
            quota.write("cgroup.procs", process.pid)
        while not process.ended.wait(dice.uniform(0.01, 0.2)):
            quota.set(dice.choice([10, 20, 50, 100]))
            count += 1
    finally:
        quota.set(100)
        threading.Thread(target=quota.remove).start()
    return count


def lack_of_quotas():
    try:
        Quota().remove()
    except OSError as error:
        return f"no control group with a quota can be made here: {error.strerror}"
    return None


class Attack:
    def __init__(self, name, victims, act=None, module=None, built="", environment=None, one=False, lack=None, what=""):
        self.name, self.victims, self.act, self.module, self.built = name, victims, act, module, built
        self.environment, self.one, self.lack, self.what = environment or {}, one, lack, what


POOLS = ["random_pools", "ending_pools", "requests"]
ATTACKS = [
    Attack("threads stop at atomic operations", ALL, module="yields", built="schedules", what="runs"),
    Attack("64 workers", POOLS, environment={"STINT_TESTS_WORKERS": "64"}, what="runs"),
    Attack("64 workers on one processor", POOLS, environment={"STINT_TESTS_WORKERS": "64"}, act=stay_on_one, one=True,
           what="runs"),
    Attack("processors are taken away and given back", POOLS + ["storm", "fork_join", "walled_futures"], act=take_processors,
           what="changes"),
    Attack("a quota of processor time that changes", POOLS + ["storm", "account"], act=take_time, lack=lack_of_quotas,
           what="changes"),
    Attack("the time of day jumps", ["deadline", "expiry", "delayed", "timers", "random_pools", "walled", "storm"],
           module="clock", what="runs"),
    Attack("process and children stand still", POOLS + ["storm", "walled_futures", "account"], act=stop_now_and_then,
           what="stops"),
]


class Failure(Exception):
    pass


def flags(root):
    """What a compiler needs for points."""
    return f"-include {root}/tests/schedules/points.h -I{root}/tests/schedules/ck -Wno-shadow -Wno-conversion"


def build_with_points(build):
    """The library with points at its atomic operations, and the victims. Returns its folder."""
    folder = os.path.join(build, "schedules")
    say(f"building the library with points in {folder}, which takes a minute or two the first time")
    made = os.path.isfile(os.path.join(folder, "build.ninja"))
    commands = [] if made else [["meson", "setup", "-Dexamples=disabled", "-Dbenchmarks=disabled", "-Doptimization=1",
                                 "-Dtests=enabled", f"-Dc_args={flags(ROOT)}", folder, ROOT]]
    commands.append(["ninja", "-C", folder] + [f"tests/test-{victim}" for victim in ALL])
    for command in commands:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            raise Failure(f"{command[0]} fails:\n{done.stdout[-3000:]}")
    return folder


def say(text):
    print(f"scripts/attack: {text}", file=sys.stderr, flush=True)


def stacks(pid):
    if not shutil.which("gdb"):
        return "(with gdb installed, the stacks of its threads would stand here)"
    command = ["gdb", "-p", str(pid), "-batch", "-ex", "thread apply all backtrace 16"]
    with contextlib.suppress(subprocess.TimeoutExpired):
        return subprocess.run(command, capture_output=True, text=True, timeout=120).stdout
    return "(gdb took too long)"


def runs(process):
    """Whether any of its threads uses a processor, or wants to: a program that waits for ever does not."""
    wanted = 0
    for _ in range(20):
        wanted += any(Process.state(thread) in "RD" for thread in process.threads())
        time.sleep(0.1)
    return wanted > 5


class Runner:
    def __init__(self, build, with_points, folder):
        self.build, self.with_points, self.folder = build, with_points, folder

    def command(self, attack, victim, seed):
        """How it is called; its environment."""
        build = self.with_points if attack.built else self.build
        arguments = [argument.format(seed=seed) for argument in VICTIMS[victim]]
        environment = dict(attack.environment)
        if attack.module:
            module = os.path.join(self.build, f"tests/schedules/schedules-{attack.module}.so")
            environment.update(LD_PRELOAD=module, STINT_SCHEDULES_SEED=str(seed), STINT_SCHEDULES_TELL="1")
        return [os.path.join(build, "tests", "test-" + victim)] + arguments, environment

    def run(self, attack, victim, seed):
        """Returns what is wrong, or None; and how often the attack did something."""
        command, environment = self.command(attack, victim, seed)
        allowed = processors()[:1] if attack.one else processors()
        environment = dict(os.environ, STINT_TESTS_SHARE="10", STINT_TESTS_LIMIT=str(LONGEST), **environment)
        dice, counted = random.Random(seed), []
        with tempfile.TemporaryFile("w+", errors="replace") as said:
            program = subprocess.Popen(command, stdout=said, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                       env=environment, cwd=self.folder, start_new_session=True,
                                       preexec_fn=lambda: os.sched_setaffinity(0, allowed))
            process = Process(program.pid)
            actor = threading.Thread(target=lambda: counted.append(attack.act(process, dice)) if attack.act else None)
            actor.start()
            begun, wrong = time.monotonic(), None
            while True:
                try:
                    program.wait(PATIENCE)
                    break
                except subprocess.TimeoutExpired:
                    if runs(process) and time.monotonic() - begun < LONGEST:
                        continue  # a busy machine
                    wrong = "it hangs\n" + stacks(program.pid)
                    break
            process.ended.set()
            actor.join()
            with contextlib.suppress(ProcessLookupError):
                os.killpg(program.pid, signal.SIGKILL)
            program.wait()
            said.seek(0)
            text = said.read()
        if wrong is None and program.returncode not in (0, 77):
            how = f"status {program.returncode}" if program.returncode > 0 else signal.Signals(-program.returncode).name
            wrong = how
        if wrong is not None:
            wrong += "\n" + text[-6000:]
        return wrong, counted[0] if counted else 1


def tell_failure(runner, attack, victim, seed, wrong):
    """Tries it again, and writes all of it down. Returns its line of the table."""
    again = sum(runner.run(attack, victim, seed)[0] is not None for _ in range(AGAIN))
    command, environment = runner.command(attack, victim, seed)
    shown = " ".join([f"{name}={value}" for name, value in environment.items()] + command)
    path = os.path.join(runner.build, f"schedules-{victim}-{seed}.log")
    with open(path, "w") as file:
        file.write(f"{attack.name}: {shown}\n{wrong}\n")
    failed = re.findall(r"\[\s*FAILED\s*\] (?:tests: )?([a-z]\w+)", wrong)
    which = failed[0] if failed else wrong.split("\n")[0]
    say(f"{victim} with the seed {seed} fails, and {again} times of {AGAIN} again: {which}; see {path}\n    {shown}")
    return f"{victim}: {which}, seed {seed}, again {again} of {AGAIN}"


def attack(build, seconds, seed, only):
    """Each attack for so many seconds. Returns the number of failures."""
    chosen = [one for one in ATTACKS if only in one.name or any(only == victim for victim in one.victims)]
    if not chosen:
        raise Failure(f"no attack has {only!r} in its name; there are: " + "; ".join(one.name for one in ATTACKS))
    missing = sorted({path for one in chosen for path in
                      [os.path.join(build, "tests/test-" + victim) for victim in one.victims if not one.built] +
                      [os.path.join(build, f"tests/schedules/schedules-{one.module}.so")] * bool(one.module)
                      if not os.path.exists(path)})
    if missing:
        raise Failure(f"there is no {missing[0]}: build it first (ninja -C {build}), or name another build folder")
    with_points = build_with_points(build) if any(one.built for one in chosen) else None
    say(f"seed {seed}; {len(chosen)} attacks, {seconds / len(chosen):.0f} seconds each")
    failures = 0
    with tempfile.TemporaryDirectory(prefix="stint-attack-") as folder:
        runner = Runner(build, with_points, folder)
        print(f"| {'attack':<46} |  runs | held | |\n|{'-' * 48}|------:|------|---|", flush=True)
        for one in chosen:
            lack = one.lack() if one.lack else None
            if lack:
                print(f"not tested: {one.name}: {lack}", flush=True)
                continue
            victims = [only] if only in one.victims else one.victims
            faults, tries, acts, end = [], 0, 0, time.monotonic() + seconds / len(chosen)
            while time.monotonic() < end or tries < 1:
                victim, own_seed = victims[(seed + tries) % len(victims)], seed + tries
                if sys.stderr.isatty():
                    print(f"\r\033[K{one.name}: {tries} runs, {max(0, end - time.monotonic()):.0f} s left: {victim}",
                          end="", file=sys.stderr, flush=True)
                wrong, done = runner.run(one, victim, own_seed)
                tries, acts = tries + 1, acts + done
                if wrong is not None:
                    faults.append(tell_failure(runner, one, victim, own_seed, wrong))
            if sys.stderr.isatty():
                print("\r\033[K", end="", file=sys.stderr)
            note = f"{acts} {one.what}" if one.what != "runs" else ""
            said = "; ".join(faults) or f"{min(tries, len(victims))} programs" + (f", {note}" if note else "")
            print(f"| {one.name:<46} | {tries:5} | {'NO' if faults else 'yes':<4} | {said} |", flush=True)
            failures += len(faults)
    return failures
