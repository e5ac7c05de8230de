#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The matrix: every library of tests/chaos/libraries in every mode, first used in a task (cold) or before (warm), on one
worker and on two, in place and behind a wall. Each cell is a process of its own, so that one which crashes or hangs ends
only itself. Counts are kept in a file after each cell: a run that was stopped goes on where it was."""
import argparse
import concurrent.futures
import datetime
import fcntl
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

import evidence

ROOT = evidence.ROOT
PAGE = ROOT / 'docs/libraries.md'
IN_PLACE = {
    'jump': ['--allow', '--mode', 'jump', '--sampled'],
    'unwind': ['--allow', '--mode', 'unwind', '--sampled'],
    'signal': ['--allow', '--mode', 'jump', '--reason', 'preemption'],
    'stack': ['--allow', '--mode', 'jump', '--reason', 'stack'],
    'fail': ['--mode', 'fail', '--sampled'],
    'waits': ['--mode', 'jump', '--sampled'],  # as it ships: of the list, or not
}
MODES = list(evidence.WAYS.values())  # the library is left in its midst
NEEDS = {'jump': 'jump', 'unwind': 'unwind', 'signal': 'jump', 'stack': 'jump', 'fail': 'fail', 'waits': 'jump'}
# Why a library is not on the list though it may have held: its work here does not do what makes it hard.
NOT_LISTED = {
    'archive': 'it opens files and starts programs',
    'curl': 'it holds connections and starts threads',
    'ffmpeg': 'it starts threads, and has very many parts',
    'fts': 'it holds files and locks on them',
    'libgit2': 'it holds files, and has locks of its own making',
    'luajit': 'it keeps states that were left',
    're2': 'it hung once in 50,000, on a busy machine, which is not explained',
    'sql': 'it holds files and locks on them',
}
WALLED_SHARE = 20  # a walled task costs a process: one of so many interrupts
STACKS = 60  # seconds that gdb may need for a hang


def run(command, seconds, **options):
    """Status, and what it printed. What is left of its group of processes then, or after so many seconds, is ended."""
    with tempfile.TemporaryFile('w+', errors='replace') as said:
        process = subprocess.Popen(command, stdout=said, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                   start_new_session=True, **options)
        try:
            status = process.wait(seconds)
        except subprocess.TimeoutExpired:
            status = 'hang'
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
        said.seek(0)
        return status, said.read()


def package_version(program, modules):
    """Of the Debian package that the first of the modules is from."""
    _, said = run(['ldd', program], 60)
    wanted = modules[0] if modules else 'libstdc++'
    for line in said.splitlines():
        match = re.match(r'\s*(\S+) => (\S+)', line)
        if match and re.match(re.escape(wanted) + r'[.-]', match.group(1)):
            path = os.path.realpath(match.group(2))
            for name in (path, path.removeprefix('/usr')):
                status, owner = run(['dpkg', '-S', name], 60)
                if status == 0:
                    package = owner.split(': ')[0].split(',')[0]
                    _, version = run(['dpkg-query', '-W', '-f', '${Version}', package], 60)
                    return re.sub(r'^\d+:', '', version).split('-')[0].split('+')[0]
    return ''


def describe(program):
    status, said = run([program, '--describe'], 60)
    if status != 0:
        sys.exit(f'matrix: {program} --describe failed: {said.strip()}')
    told = json.loads(said.splitlines()[-1])
    modules = [module for module in told['modules'].split(':') if module]
    return {
        'row': program.name.removeprefix('chaos-'),
        'library': told['library'],
        'version': told['version'] or package_version(program, modules),
        'modules': modules,
        'modes': told['modes'],
    }


def cells_of(row):
    """Names of cells: mode, use, workers."""
    for mode in IN_PLACE:
        if NEEDS[mode] in row['modes']:
            for use in ('cold', 'warm'):
                for workers in (1, 2):
                    yield f'{mode} {use} {workers}'
    yield 'walled'


def what_broke(status, said):
    """None: nothing did."""
    failed = re.search(r'FAILED: (.*)', said)
    crashed = re.search(r'chaos: crashed, (.*?),', said)
    if crashed:
        return crashed.group(1).lower()
    if status == 'hang' or status == 3 or 'no task has ended' in said or 'nothing has ended' in said:
        return 'hang'
    if failed:
        told = re.sub(r'chaos --library .*| \((ok|error|cancelled).*', '', failed.group(1))
        told = re.sub(r'a process in which the library was used first ended: (by|with) (\w+)( \d+)?',
                      lambda end: end.group(2) if end.group(1) == 'by' else f'it called exit({end.group(3).strip()})', told)
        crash = re.search(r'an end that nobody asked for: error, crash, error \d+, signal (\d+)', told)
        return f'a task crashed by signal {crash.group(1)}' if crash else told.strip(' :') or 'failed'
    if isinstance(status, int) and status < 0:
        return signal.Signals(-status).name
    if status != 0:
        lines = [line for line in said.splitlines() if line.strip()]
        return f'ended with status {status}: {lines[-1].strip()[:60] if lines else ""}'.rstrip(': ')
    return None


class Run:
    """What has been counted, and where it is kept."""

    def __init__(self, arguments):
        self.arguments = arguments
        self.folder = arguments.build / 'tests/chaos/libraries'
        self.lock = threading.Lock()
        self.cache = counted_before() if arguments.go_on else {}
        if arguments.cache.exists():
            self.cache = json.loads(arguments.cache.read_text())
        self.bar = evidence.bar()
        self.begin = time.monotonic()
        self.done = 0
        self.ended = False

    def keep(self):
        other = self.arguments.cache.with_suffix('.new')
        other.write_text(json.dumps(self.cache, indent=0, sort_keys=True))
        other.replace(self.arguments.cache)

    def keep_output(self, row, name, command, said):
        """Of what broke: the command, and what it printed. Of a hang that has the stacks of all threads."""
        folder = self.arguments.build / 'libraries-broke'
        folder.mkdir(exist_ok=True)
        (folder / f'{row["row"]} {name}'.replace(' ', '-')).write_text(' '.join(map(str, command)) + '\n' + said)

    def cell(self, row, name):
        row = self.cache.setdefault(row['row'], {'cells': {}})
        return row['cells'].setdefault(name, {'interrupts': 0, 'tries': 0})

    def target(self, row, name):
        if self.arguments.listed:
            return self.bar.get((row['row'], name), 0)
        return self.arguments.interrupts // (WALLED_SHARE if name == 'walled' else 1)

    def is_wanted(self, row, name):
        cell = self.cell(row, name)
        return ('broke' not in cell and ('slow' not in cell or self.arguments.listed) and
                cell['interrupts'] < self.target(row, name))

    def seconds_left(self, row):
        """What the row still lacks, in the time that its cells took until now."""
        cells = [(self.cell(row, name), target) for (of, name), target in self.bar.items() if of == row['row']]
        cost = sum(cell.get('seconds', 0) for cell, _ in cells) / max(sum(cell['interrupts'] for cell, _ in cells), 1)
        return cost * sum(max(target - cell['interrupts'], 0) for cell, target in cells)

    def command(self, row, name, seed):
        step = min(self.arguments.step, max(self.target(row, name) - self.cell(row, name)['interrupts'], 100))
        if name == 'walled':
            return [self.folder / f'walled-{row["row"]}', '--interrupts', str(max(self.arguments.step // WALLED_SHARE, 20)),
                    '--seed', str(seed)] + (['--open'] if self.arguments.open else [])
        mode, use, workers = name.split()
        return [self.folder / f'chaos-{row["row"]}', '--library', row['library'], *IN_PLACE[mode], '--workers', workers,
                '--interrupts', str(step), '--seconds', str(self.arguments.seconds), '--patience', str(self.arguments.patience),
                '--seed', str(seed), '--record'] + (['--cold'] if use == 'cold' else [])

    def fly(self, row, name):
        """One step of one cell."""
        seed = random.getrandbits(48)
        command = self.command(row, name, seed)
        begin = time.monotonic()
        status, said = run(command, self.arguments.seconds + 3 * self.arguments.patience + STACKS, env=dict(os.environ, G_SLICE='always-malloc'))
        broke = what_broke(status, said)
        if name == 'walled':
            counts = [int(n) for n in re.findall(r'^\S+ +(?:first|warm) +(\d+)', said, re.M)]
            interrupts = sum(counts)
        else:
            record = re.search(r'^RECORD (.*)', said, re.M)
            told = json.loads(record.group(1)) if record else {'interrupts': 0}
            interrupts = told['interrupts']
        with self.lock:
            cell = self.cell(row, name)
            cell['tries'] += 1
            cell['seed'] = seed
            cell['seconds'] = round(cell.get('seconds', 0) + time.monotonic() - begin, 2)
            cell['interrupts'] += interrupts
            self.done += interrupts
            if broke is not None:
                cell['broke'] = broke
                cell['command'] = ' '.join([os.path.basename(command[0])] + command[1:])
                self.keep_output(row, name, command, said)
                self.say(f'{row["library"]}, {name}: {broke}')
            elif interrupts < self.arguments.step // 50:
                cell['slow'] = True  # it cannot be stopped often here: what came counts
            self.cache[row['row']].update({key: row[key] for key in ('library', 'version', 'modules')})
            self.cache[row['row']]['date'] = datetime.date.today().isoformat()
            self.keep()

    def say(self, text, end='\n'):
        if sys.stderr.isatty():
            sys.stderr.write('\r\033[K')
        print(text, file=sys.stderr, end=end, flush=True)

    def progress(self, left, steps):
        seconds = time.monotonic() - self.begin
        text = f'{self.done} interrupts in {seconds:.0f} s, {self.done / max(seconds, 1):.0f} a second; {left} of {steps} steps left'
        self.say(text, '' if sys.stderr.isatty() else '\n')

    def rows(self):
        programs = sorted(self.folder.glob('chaos-*'))
        programs = [program for program in programs if program.is_file() and os.access(program, os.X_OK)]
        wanted = self.arguments.library
        programs = [program for program in programs if not wanted or program.name.removeprefix('chaos-') in wanted]
        with concurrent.futures.ThreadPoolExecutor(self.arguments.jobs) as pool:
            rows = list(pool.map(describe, programs))
        self.begin = time.monotonic()
        for row in rows:
            kept = self.cache.get(row['row'], {})
            if kept.get('version', row['version']) != row['version'] or self.arguments.again:
                self.cache.pop(row['row'], None)  # another version: it has to be tried anew
        return rows

    def pass_once(self, rows):
        """A step of each cell that has not its number yet. Whether there was one, and time is left."""
        steps = [(row, name) for row in rows for name in cells_of(row)
                 if self.is_wanted(row, name) and (not self.arguments.mode or name.split()[0] in self.arguments.mode)]
        random.shuffle(steps)
        if self.arguments.listed:  # the entries that are soon done first
            steps.sort(key=lambda step: self.seconds_left(step[0]))
        left = len(steps)
        last = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(self.arguments.jobs) as pool:
            waiting = [pool.submit(self.fly_in_time, row, name) for row, name in steps]
            for future in concurrent.futures.as_completed(waiting):
                future.result()
                left -= 1
                if time.monotonic() - last > (1 if sys.stderr.isatty() else 30):
                    last = time.monotonic()
                    self.progress(left, len(steps))
        return bool(steps) and not self.is_over()

    def is_over(self):
        return self.ended or (self.arguments.minutes and time.monotonic() - self.begin > self.arguments.minutes * 60)

    def fly_in_time(self, row, name):
        if not self.is_over():
            self.fly(row, name)


# --- What is kept in the repository ----------------------------------------------------------------------------------


def merged(cells, mode, use):
    """Cells of one and of two workers; what each held."""
    some = [cells[name] for name in (f'{mode} {use} 1', f'{mode} {use} 2') if name in cells and cells[name]['tries']]
    if not some:
        return None
    held = {'held': [cell['interrupts'] for cell in some], 'seed': some[-1]['seed']}
    for cell in some:
        if 'broke' in cell:
            held['broke'] = cell['broke']
            held['command'] = cell['command']
    return held


def counted_before():
    """The other way round: the cells that results.json tells of. Which number of workers broke it does not tell: both."""
    cache = {}
    for name, row in evidence.rows().items():
        cells = {}
        for cell, told in row['cells'].items():
            kept = {'tries': 1, **{key: told[key] for key in ('seed', 'broke', 'command') if key in told}}
            names = [cell] if cell == 'walled' else [f'{cell} {workers}' for workers in evidence.WORKERS]
            counts = told['held'] + [0] * (len(names) - len(told['held']))
            cells.update({name: {**kept, 'interrupts': count} for name, count in zip(names, counts)})
        cache[name] = {**{key: row[key] for key in ('library', 'version', 'modules', 'date')}, 'cells': cells}
    return cache


def summary(cache):
    libraries = []
    for name in sorted(cache):
        row = cache[name]
        cells = {f'{mode} {use}': cell for mode in IN_PLACE for use in ('cold', 'warm')
                 if (cell := merged(row['cells'], mode, use))}
        walled = row['cells'].get('walled')
        if walled and walled['tries']:
            cells['walled'] = {'held': [walled['interrupts']], 'seed': walled['seed']}
            if 'broke' in walled:
                cells['walled'].update(broke=walled['broke'], command=walled['command'])
        if cells:
            libraries.append({'row': name, **{key: row[key] for key in ('library', 'version', 'modules', 'date')},
                              'cells': cells})
    return libraries


def write_results(cache):
    lines = ',\n'.join(json.dumps(row) for row in summary(cache))
    evidence.RESULTS.write_text('{"libraries": [\n' + lines + '\n]}\n')


def number(value):
    return f'{value:,}'


def told(row, mode):
    """What the table says of one way."""
    cold, warm = row['cells'].get(f'{mode} cold'), row['cells'].get(f'{mode} warm')
    if cold is None and warm is None:
        return '–'
    bad = [(use, cell) for use, cell in (('cold', cold), ('warm', warm)) if cell and 'broke' in cell]
    held = sum(sum(cell['held']) for cell in (cold, warm) if cell)
    if not bad:
        return number(held) if held else 'never stopped'
    uses = '' if len(bad) == 2 else f'{bad[0][0]}: '
    others = '' if len(bad) == 2 else f'; {"warm" if bad[0][0] == "cold" else "cold"} {number(held - sum(bad[0][1]["held"]))}'
    return f'**{uses}{bad[0][1]["broke"]}**{others}'


def warming(row):
    """Whether it must be used before the first task: where a cold cell broke and the warm one did not."""
    cold = [mode for mode in ('jump', 'unwind', 'signal', 'stack', 'fail') if 'broke' in row['cells'].get(f'{mode} cold', {})
            and 'broke' not in row['cells'].get(f'{mode} warm', {'broke': ''})]
    return ', '.join(cold) or 'no'


def verdict(row, listed):
    modes = listed.get(row['row'], [])
    if modes:
        return 'on the list' if set(modes) >= set(MODES) else 'on the list: ' + ', '.join(modes)
    if not row['modules']:
        return "the program's own code"
    others = {entry.row for entry in evidence.entries() if entry.module in row['modules']}
    if set(row['modules']) <= {entry.module for entry in evidence.entries()}:
        return f'on the list: see {", ".join(sorted(evidence.rows()[other]["library"] for other in others))}'
    if row['row'] in NOT_LISTED:
        return f'it returns first: {NOT_LISTED[row["row"]]}'
    held = evidence.held(row, MODES)
    if held:
        return f'held with {number(held)}, not on the list yet: it returns first'
    broke = [use for use in ('cold', 'warm') if 'broke' in row['cells'].get(f'waits {use}', {})]
    return 'it returns first' if not broke else 'it returns first, once warmed up' if broke == ['cold'] else 'walled only'


def page():
    known = evidence.rows()
    listed = {}
    for entry in evidence.entries():
        listed.setdefault(entry.row, entry.modes)
    held = sum(sum(cell['held']) for row in known.values() for cell in row['cells'].values())
    table = []
    for row in sorted(known.values(), key=lambda row: row['library'].lower()):
        cells = [f'{row["library"]} {row["version"]}'.strip()]
        cells += [told(row, mode) for mode in ('jump', 'unwind', 'signal', 'stack', 'fail', 'waits')]
        walled = row['cells'].get('walled')
        cells.append('–' if walled is None else f'**{walled["broke"]}**' if 'broke' in walled else number(sum(walled['held'])))
        cells += [warming(row), verdict(row, listed)]
        table.append('| ' + ' | '.join(cells) + ' |')
    text = PAGE.read_text() if PAGE.exists() else ''
    mark = '<!-- what follows is written by tests/chaos/matrix.py --page -->\n'
    head = text[:text.index(mark)] if mark in text else text
    heading = ['library', 'jump', 'unwind', 'signal', 'stack', 'fail', 'as it ships', 'walled', 'to be warmed up for', 'so']
    return (head + mark + f'\n{number(held)} interrupts in {len(known)} libraries. '
            f'{min(row["date"] for row in known.values())} to {max(row["date"] for row in known.values())}.\n\n'
            '| ' + ' | '.join(heading) + ' |\n' + '| ' + ' | '.join('---' for _ in heading) + ' |\n' + '\n'.join(table) + '\n')


def broken_entries(cache):
    """What broke of the list."""
    found = []
    for entry in evidence.entries():
        cells = cache.get(entry.row, {'cells': {}})['cells']
        found += [f'{entry.module}, {name}: {cell["broke"]}\n  {cell["command"]}' for name, cell in cells.items()
                  if 'broke' in cell and name.split()[0] in entry.modes + ['waits', 'walled']]
    return found


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__, epilog='Build the programs first: ninja -C BUILD libraries. '
                                     'Exit status: 1 if an entry of the list broke.')
    parser.add_argument('build', type=pathlib.Path, nargs='?', metavar='BUILD', help='the build folder')
    parser.add_argument('--interrupts', type=int, default=8000, help='of each cell, in all runs together (8000)')
    parser.add_argument('--step', type=int, default=2000, help='interrupts of one process (2000)')
    parser.add_argument('--seconds', type=int, default=20, help='at most, of one process (20)')
    parser.add_argument('--minutes', type=float, default=0, help='end after so many (no limit)')
    parser.add_argument('--patience', type=int, default=40, help='a process hangs if no task ends for so many seconds (40)')
    parser.add_argument('--jobs', type=int, default=4, help='cells at once, as each waits much (4)')
    parser.add_argument('--library', action='append', help='only this one, as its program is called; may be repeated')
    parser.add_argument('--mode', action='append', help='only jump, unwind, signal, stack, fail, waits, walled')
    parser.add_argument('--listed', action='store_true', help='only what entries of the list lack of their evidence')
    parser.add_argument('--go-on', action='store_true',
                        help='where nothing is kept yet, begin with what results.json counts: what broke is not tried again')
    parser.add_argument('--again', action='store_true', help='forget what was counted of the libraries chosen')
    parser.add_argument('--cache', type=pathlib.Path, help='where counts are kept (BUILD/libraries.json)')
    parser.add_argument('--open', action='store_true', help='walls that are not closed')
    parser.add_argument('--write', action='store_true', help='write results.json and docs/libraries.md at the end')
    parser.add_argument('--page', action='store_true', help='write docs/libraries.md from results.json, and leave')
    arguments = parser.parse_args()
    if arguments.page:
        return arguments
    if arguments.build is None or not (arguments.build / 'tests/chaos/libraries').is_dir():
        parser.error('BUILD must be a build folder with tests/chaos/libraries in it')
    arguments.cache = arguments.cache or arguments.build / 'libraries.json'
    return arguments


def main():
    arguments = read_arguments()
    if arguments.page:
        PAGE.write_text(page())
        return
    guard = open(f'{arguments.cache}.lock', 'w')
    try:
        fcntl.flock(guard, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.exit(f'matrix: another run uses {arguments.cache}')
    course = Run(arguments)
    rows = course.rows()
    if not rows:
        sys.exit('matrix: there are no programs: ninja -C BUILD libraries')
    signal.signal(signal.SIGINT, lambda *_: setattr(course, 'ended', True))
    signal.signal(signal.SIGTERM, lambda *_: setattr(course, 'ended', True))
    while course.pass_once(rows):
        pass
    course.progress(0, 0)
    if arguments.write:
        write_results(course.cache)
        PAGE.write_text(page())
    broken = broken_entries(course.cache)
    for text in broken:
        print(f'matrix: of the list: {text}')
    sys.exit(1 if broken else 0)


if __name__ == '__main__':
    main()
