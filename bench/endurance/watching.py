# SPDX-License-Identifier: MIT
"""Shared by the endurance runs: what the system says of a process, and the table and the plot of docs/reliability.md."""
import os
import re
import subprocess

DOCS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs")
MIB = 1024 * 1024
GROWTH = 16 * MIB  # from the second tenth to the last


def read(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def resident(pid):
    fields = read(f"/proc/{pid}/statm").split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE") if fields else 0


def draw(name, setting, lines, height=420):
    """lines: where in a multiplot, title, points."""
    blocks, plots = "", {}
    for number, (where, title, points) in enumerate(lines):
        step = max(1, len(points) // 500)
        text = "\n".join(f"{x:.3f} {y:.2f}" for x, y in points[::step])
        blocks += f"$run{number} << END\n{text}\nEND\n"
        plots.setdefault(where, []).append(f"$run{number} using 1:2 with lines lw 1.5 title '{title}'")
    script = f"{blocks}set output '{os.path.join(DOCS, name)}'\nset grid\nset key outside right\n{setting}\n"
    for where, plot in plots.items():
        script += f"{where}\nplot {', '.join(plot)}\n"
    subprocess.run(["gnuplot"], input=f"set terminal svg size 900,{height} font 'sans,13'\n" + script, text=True, check=True)


def write_table(head, rows):
    """Replaces the rows of the page below this head."""
    path = os.path.join(DOCS, "reliability.md")
    before, _, behind = read(path).partition(head + "\n")
    kept = behind.split("\n\n", 1)[1]
    with open(path, "w", encoding="utf-8") as file:
        file.write(before + "\n".join([head, "| --- " * (head.count("|") - 1) + "|", *rows]) + "\n\n" + kept)
