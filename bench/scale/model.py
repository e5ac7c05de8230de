# SPDX-License-Identifier: MIT
"""A discrete-event model of the pool, for machines with more processors than there are at hand.

Every worker is a process of the simulation (SimPy) that goes through the steps of the pool's protocols: it takes a task
out of the submission queue, enters an account, steals, asks for forks. What it shares with others is a set of cache
lines. A line is in one processor's cache for writing, or in several for reading. An access that finds it elsewhere waits
until the line has moved, and lines move to one processor at a time. That is where a pool bends: nothing else in it is
shared.

The costs come from measure.c. The model has four numbers of its own, which are fitted to two workers with empty tasks;
tasks of any other length, one worker and two, are predicted and compared with what was measured (run.py).
"""

import random

import simpy

LOCAL = 1.0  # ns: an access that hits


class Line:
    """A line of the cache. read and write return when the access is done."""

    def __init__(self, machine):
        self.machine = machine
        self.free_at = 0.0
        self.copies = set()
        self.version = 0

    def read(self, cpu, at):
        if cpu in self.copies:
            return at + LOCAL
        return self._moved(cpu, at, self.copies | {cpu})

    def write(self, cpu, at):
        self.version += 1
        if self.copies == {cpu}:
            return at + self.machine.atomic
        return self._moved(cpu, at, {cpu})

    def _moved(self, cpu, at, copies):
        begin = max(at, self.free_at)
        self.free_at = begin + self.machine.line
        self.copies = copies
        return self.free_at


class Machine:
    """What the processors cost: nanoseconds."""

    def __init__(self, costs, far=1.0):
        self.line = costs["line"] * far
        self.atomic = costs["atomic"]
        self.wake = costs["wake"]
        self.costs = costs

    def lines(self, count):
        return [Line(self) for _ in range(count)]


def finished(env, machine, bodies):
    """Runs all bodies to their end, and returns when the last one ended."""
    processes = [env.process(body) for body in bodies]
    env.run(until=simpy.AllOf(env, processes))
    return env.now


# --- Plain tasks in the submission queue (executor/base/queue.c) ------------------------------------------------------


class Ring:
    """The bounded queue: head moves by a compare-and-swap, and each cell says whose turn it is."""

    def __init__(self, machine, tasks, cells_a_line=4):
        self.head = Line(machine)
        self.cells = machine.lines(tasks // cells_a_line + 2)
        self.cells_a_line = cells_a_line
        self.position = 0
        self.left = tasks

    def pop(self, env, cpu, at_once):
        """Takes up to at_once tasks; the value is how many came."""
        while self.left > 0:
            yield env.timeout(self.head.read(cpu, env.now) - env.now)
            position = self.position
            cell = self.cells[position // self.cells_a_line]
            yield env.timeout(cell.read(cpu, env.now) - env.now)
            yield env.timeout(self.head.write(cpu, env.now) - env.now)
            if self.position != position or self.left <= 0:
                continue  # another was first: look again
            count = min(at_once, self.left)
            self.position += count
            self.left -= count
            for index in range(position // self.cells_a_line, (position + count - 1) // self.cells_a_line + 1):
                yield env.timeout(self.cells[index].write(cpu, env.now) - env.now)
            return count
        return 0


def plain(machine, workers, grain, tasks, at_once=1):
    """Nanoseconds a task of a full queue that so many workers empty."""
    env = simpy.Environment()
    ring = Ring(machine, tasks)
    own = machine.costs["plain.0.1"] - 4 * LOCAL

    def worker(cpu):
        while True:
            count = yield from ring.pop(env, cpu, at_once)
            if count == 0:
                return
            yield env.timeout(count * (own + machine.costs["beside"] * (workers > 1) + grain))

    return finished(env, machine, [worker(cpu) for cpu in range(workers)]) / tasks


# --- Tasks with an account: the fair queue's lock (executor/queue/fair_queue.c) -----------------------------------------


def account(machine, workers, grain, tasks, accounts=1):
    """The same of tasks that wait in the fair queue. Each takes the lock twice: to be taken out, and to be charged."""
    env = simpy.Environment()
    lock = simpy.Resource(env)
    state = {"left": tasks, "owner": None}
    ledgers = machine.lines(accounts)
    alone = machine.costs["account.0.1" if accounts == 1 else "accounts.0.1"]
    held = machine.costs["held" if accounts == 1 else "held_of_many"]
    own = max(alone - held, 0)

    def locked(cpu, part):
        """Under the lock; what it guards moves with it."""
        with lock.request() as turn:
            yield turn
            moved = state["owner"] not in (cpu, None)
            state["owner"] = cpu
            yield env.timeout(held * part + (machine.costs["handed"] if moved else 0))

    def worker(cpu):
        while True:
            yield from locked(cpu, 0.6)
            if state["left"] <= 0:
                return
            state["left"] -= 1
            ledger = ledgers[state["left"] % accounts]
            for _ in range(2):  # it enters the account, and leaves it
                yield env.timeout(ledger.write(cpu, env.now) - env.now)
            yield env.timeout(own + grain)
            yield from locked(cpu, 0.4)

    return finished(env, machine, [worker(cpu) for cpu in range(workers)]) / tasks


# --- Forks: the split deques, and those who search them (executor/base/split.c, worker.c) -------------------------------


def fork(machine, workers, grain, depth, seed=1, searchers_max=None):
    """Nanoseconds a leaf of a binary tree of forks. searchers_max: no more than so many look for work at once."""
    env = simpy.Environment()
    chance = random.Random(seed)
    leaves = 1 << depth
    pieces = [[] for _ in range(workers)]  # of each worker: depths of its forks, the oldest first
    public = [0] * workers  # how many of the oldest are public
    asked = [False] * workers
    bounds = machine.lines(workers)
    state = {"done": 0, "searching": 0}
    fork_cost = machine.costs["fork.0.1"]

    def share(cpu):
        """At a fork or a join: answers who has asked, by the older half of what is private."""
        if asked[cpu] and public[cpu] == 0 and pieces[cpu]:
            asked[cpu] = False
            public[cpu] = (len(pieces[cpu]) + 1) // 2
            yield env.timeout(bounds[cpu].write(cpu, env.now) - env.now)

    def run(cpu, piece):
        """A subtree: forks one half, goes on with the other, works at its leaf, then takes the newest fork."""
        while piece is not None:
            while piece > 0:
                piece -= 1
                pieces[cpu].append(piece)
                yield from share(cpu)
            yield env.timeout(fork_cost + grain)
            state["done"] += 1
            yield from share(cpu)
            if not pieces[cpu]:
                return
            if public[cpu] == len(pieces[cpu]):
                yield env.timeout(bounds[cpu].write(cpu, env.now) - env.now)
                if not pieces[cpu]:
                    return
                public[cpu] = public[cpu] // 2
            piece = pieces[cpu].pop()

    def rob(cpu):
        """One look at all others, from a random one on. The value is a subtree or None."""
        first = chance.randrange(workers)
        for step in range(workers):
            victim = (first + step) % workers
            if victim == cpu:
                continue
            yield env.timeout(bounds[victim].read(cpu, env.now) - env.now)
            if public[victim] > 0:
                public[victim] -= 1
                piece = pieces[victim].pop(0)
                yield env.timeout(bounds[victim].write(cpu, env.now) + machine.costs["steal"] - env.now)
                return piece
            if pieces[victim] and not asked[victim]:
                asked[victim] = True
                yield env.timeout(bounds[victim].write(cpu, env.now) - env.now)
        return None

    def worker(cpu):
        if cpu == 0:
            yield from run(cpu, depth)
        while state["done"] < leaves:
            if searchers_max is not None and state["searching"] >= searchers_max:
                yield env.timeout(machine.wake)
                continue
            state["searching"] += 1
            piece = yield from rob(cpu)
            state["searching"] -= 1
            if piece is not None:
                yield from run(cpu, piece)
            else:
                yield env.timeout(100)  # a rest

    return finished(env, machine, [worker(cpu) for cpu in range(workers)]) / leaves


# --- Behind a wall -------------------------------------------------------------------------------------------------------


def wall(machine, workers, grain, tasks):
    """Tasks in children that are used again. Driver and child wake each other; drivers share only the queue."""
    env = simpy.Environment()
    ring = Ring(machine, tasks)
    trip = machine.costs["wall.0.%d" % min(workers, 2)] * min(workers, 2)

    def driver(cpu):
        while (yield from ring.pop(env, cpu, 1)) > 0:
            yield env.timeout(trip + grain)

    return finished(env, machine, [driver(cpu) for cpu in range(workers)]) / tasks


def fresh(machine, workers, grain, tasks):
    """Each task in a new child. One process, the template, forks them all, one after another."""
    env = simpy.Environment()
    template = simpy.Resource(env)
    left = {"tasks": tasks}

    def driver(_cpu):
        while left["tasks"] > 0:
            left["tasks"] -= 1
            with template.request() as turn:
                yield turn
                yield env.timeout(machine.costs["template"])
            yield env.timeout(max(machine.costs["fresh.0.1"] - machine.costs["template"], 0) + grain)

    return finished(env, machine, [driver(cpu) for cpu in range(workers)]) / tasks
