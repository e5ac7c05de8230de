# SPDX-License-Identifier: MIT
"""The list of libraries that ships (alloc/platform/caller.c), and the evidence for it (tests/chaos/results.json).

Each entry that may be left in some way names the row of its library, in a comment behind it. Run as a program, this fails
where the list names a library without a row, where a way has not held often enough there, or where docs/libraries.md is
not what the rows say."""
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIST = ROOT / 'alloc/platform/caller.c'
RESULTS = ROOT / 'tests/chaos/results.json'

# Which mode of the chaos program shows that a library may be left in that way.
WAYS = {
    'STI_LEFT_BY_JUMP': 'jump',
    'STI_LEFT_BY_UNWIND': 'unwind',
    'STI_LEFT_STOPPED': 'signal',
    'STI_LEFT_EXHAUSTED': 'stack',
}
USES = ('cold', 'warm')
WORKERS = (1, 2)
ENOUGH = 1000  # interrupts of each mode, each use, and each number of workers
ENOUGH_IN_ALL = 25000  # of them all
# What the chaos program runs itself is stopped a million times there (the test chaos_million): a number here proves
# nothing more, and what broke here counts.
CHAOS = ROOT / 'tests/chaos/all.c'


class Entry:
    def __init__(self, module, modes, row):
        self.module, self.modes, self.row = module, modes, row


def entries(text=None):
    """The entries of the list that may be left."""
    text = LIST.read_text() if text is None else text
    table = text[text.index('} libraries[] = {'):]
    table = table[:table.index('\n};')]
    found = []
    for module, ways, comment in re.findall(r'\{ "([^"]+)", ([^,]+), [^}]+\},(?: */\* (.*?) \*/)?', table):
        ways = ways.split(' | ')
        if 'STI_LEFT_ANYHOW' in ways:
            ways = list(WAYS)
        modes = [WAYS[way] for way in ways if way in WAYS]
        if modes:
            row = re.match(r'row (\S+)', comment)
            found.append(Entry(module, modes, row.group(1) if row else None))
    return found


def rows():
    return {row['row']: row for row in json.loads(RESULTS.read_text())['libraries']}


def lacks(entry, rows):
    """What is missing, or None."""
    if entry.row is None:
        return 'names no row of its evidence'
    row = rows.get(entry.row)
    if row is None:
        return f'there is no row {entry.row}'
    if entry.module not in row['modules']:
        return f'row {entry.row} did not allow that it is left'
    for mode in entry.modes:
        for use in USES:
            if 'broke' in (cell := row['cells'].get(f'{mode} {use}', {})):
                return f'row {entry.row}: {mode}, {use}: {cell["broke"]}'
            counts = cell.get('held', [])
            if not in_chaos(entry.row) and (len(counts) < len(WORKERS) or min(counts) < ENOUGH):
                return f'row {entry.row}: {mode}, {use}: held {counts} interrupts on {WORKERS} workers, of {ENOUGH} each'
    in_all = held(row, entry.modes)
    if in_all < ENOUGH_IN_ALL and not in_chaos(entry.row):
        return f'row {entry.row}: held {in_all} interrupts in all, of {ENOUGH_IN_ALL}'
    return None


def in_chaos(row):
    return re.search(rf'&chaos_{row}\b', CHAOS.read_text()) is not None


def held(row, modes):
    """Interrupts of these modes, or 0 if something broke, or was never stopped."""
    cells = [row['cells'].get(f'{mode} {use}', {}) for mode in modes for use in USES]
    if any('broke' in cell or not cell.get('held') for cell in cells):
        return 0
    return sum(sum(cell['held']) for cell in cells)


def bar():
    """How many interrupts each cell of the matrix needs for the entries there are."""
    needed = {}
    for entry in entries():
        share = -(-ENOUGH_IN_ALL // (len(entry.modes) * len(USES) * len(WORKERS)))
        each = ENOUGH if in_chaos(entry.row) else max(ENOUGH, share)
        needed.update({(entry.row, f'{mode} {use} {workers}'): each
                       for mode in entry.modes for use in USES for workers in WORKERS})
    return needed


def judge(text=None):
    """Each entry without evidence, and why."""
    known = rows()
    return [f'{entry.module}: {lack}' for entry in entries(text) if (lack := lacks(entry, known)) is not None]


def with_entry(entry):
    """The text of the list with an entry more."""
    before, table, rest = LIST.read_text().partition('} libraries[] = {')
    return before + table + rest.replace('\n};', f'\n    {entry}\n}};', 1)


def main():
    if len(entries()) < 5:
        sys.exit('evidence: the list cannot be read any more')
    for row in ('row made-up', 'row ' + entries()[0].row, 'no row'):
        if len(judge(with_entry('{ "libmade-up", STI_LEFT_BY_JUMP, NULL }, /* %s */' % row))) <= len(judge()):
            sys.exit('evidence: an entry without evidence goes through')
    for entry in entries():
        if not in_chaos(entry.row) and entry.row in (known := rows()) and lacks(entry, known) is None:
            known[entry.row]['cells'][f'{entry.modes[0]} cold']['held'][0] = ENOUGH - 1
            if lacks(entry, known) is None:
                sys.exit('evidence: an entry with one interrupt too few goes through')
    without = judge()
    for line in without:
        print(f'evidence: {line}')
    import matrix
    if matrix.page() != matrix.PAGE.read_text():
        without.append('')
        print(f'evidence: {matrix.PAGE.relative_to(ROOT)} is not what the rows say: tests/chaos/matrix.py --page')
    sys.exit(1 if without else 0)


if __name__ == '__main__':
    main()
