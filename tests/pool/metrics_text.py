#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Reads the output of stint_metrics_write as strictly as OpenMetrics 1.0 is defined.

metrics_text.py PROGRAM

Where Prometheus's promtool is installed, it has to accept it too: as OpenMetrics, with a time at each sample, which it
wants to import one; and as the older text format, which has no units and no end, and other names for counters."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"'
NUMBER = r"(?:0|[1-9][0-9]*)(?:\.[0-9]+)?"
SAMPLE = re.compile(rf"({NAME})(?:\{{({LABEL}(?:,{LABEL})*)\}})? ({NUMBER})")
METADATA = re.compile(rf"# (TYPE|UNIT|HELP) ({NAME}) (\S.*)")
SUFFIXES = {"counter": ["_total"], "gauge": [""], "histogram": ["_bucket", "_count", "_sum"]}


class Family:
    def __init__(self, name):
        self.name, self.type, self.unit, self.help = name, None, None, None
        self.samples = []  # (suffix, labels, value)


def check(condition, line, what):
    if not condition:
        sys.exit(f"line {line[0]}: {what}: {line[1]}")


def parse_metadata(families, line):
    kind, name, text = METADATA.fullmatch(line[1]).groups()
    if not families or families[-1].name != name:
        check(all(family.name != name for family in families), line, "a metric is not in one piece")
        families.append(Family(name))
    family = families[-1]
    check(not family.samples, line, "metadata after samples")
    check(getattr(family, kind.lower()) is None, line, "metadata twice")
    setattr(family, kind.lower(), text)
    if kind == "TYPE":
        check(text in SUFFIXES, line, "unknown type")
        check(not (text == "counter" and name.endswith("_total")), line, "a counter's metric ends in _total")
    if kind == "UNIT":
        check(name.endswith("_" + text), line, "the name does not end in the unit")
    if kind == "HELP":
        check(re.fullmatch(r"(?:[^\\]|\\[\\n\"])*", text), line, "bad escape")


def parse_sample(families, line):
    match = SAMPLE.fullmatch(line[1])
    check(match is not None, line, "no sample")
    name, text, value = match.groups()
    check(families, line, "a sample of no metric")
    family = families[-1]
    check(family.type is not None and family.help is not None, line, "no type or no help")
    suffix = next((s for s in SUFFIXES[family.type] if name == family.name + s), None)
    check(suffix is not None, line, "a sample of another metric")
    labels = dict(re.findall(r'([a-zA-Z0-9_]+)="((?:[^"\\]|\\.)*)"', text or ""))
    check(len(labels) == len(re.findall(LABEL, text or "")), line, "a label twice")
    check(("le" in labels) == (suffix == "_bucket"), line, "le out of its place")
    check("." not in value or family.unit == "seconds", line, "a fraction of what has none")
    check(all((suffix, labels) != sample[:2] for sample in family.samples), line, "a sample twice")
    family.samples.append((suffix, labels, value))


def check_histogram(family, line):
    """Each set of labels in one piece: its buckets upwards, then the count, then the sum."""
    at = 0
    while at < len(family.samples):
        labels = {k: v for k, v in family.samples[at][1].items() if k != "le"}
        bound, count = float("-inf"), 0
        while family.samples[at][0] == "_bucket":
            _, own, value = family.samples[at]
            check({k: v for k, v in own.items() if k != "le"} == labels, line, "buckets of several are mixed")
            check(re.fullmatch(r"[0-9]+\.[0-9]+|\+Inf", own["le"]), line, "a bound that is no float")
            check(float(own["le"]) > bound and int(value) >= count, line, "buckets do not rise")
            bound, count = float(own["le"]), int(value)
            at += 1
        check(bound == float("inf"), line, "no last bucket")
        check(family.samples[at] == ("_count", labels, str(count)), line, "the count is not the last bucket's")
        check(family.samples[at + 1][:2] == ("_sum", labels), line, "no sum")
        at += 2


def parse(text):
    families = []
    lines = text.split("\n")
    check(lines[-2:] == ["# EOF", ""], (len(lines), lines[-1]), "no end")
    for line in enumerate(lines[:-2], 1):
        if METADATA.fullmatch(line[1]):
            parse_metadata(families, line)
        else:
            parse_sample(families, line)
    samples = [family.name + suffix for family in families for suffix in {sample[0] for sample in family.samples}]
    for family in families:
        line = (0, family.name)
        check(family.type is not None and family.help is not None, line, "no type or no help")
        check(samples.count(family.name + SUFFIXES[family.type][0]) <= 1, line, "its name is another's")
        for unit in ("seconds", "bytes"):
            check(not family.name.endswith("_" + unit) or family.unit == unit, line, "no unit")
        if family.type == "histogram":
            check_histogram(family, line)
    return families


def promtool(*arguments, text=None):
    result = subprocess.run(["promtool", *arguments], input=text, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if result.returncode != 0 or (text is not None and result.stdout):
        sys.exit(f"promtool {' '.join(arguments)}: {result.stdout.decode()}")


def have_imported(text):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "metrics")
        with open(path, "w") as file:
            for line in text.splitlines():
                file.write(line + ("\n" if line.startswith("#") else " 1700000000\n"))
        promtool("tsdb", "create-blocks-from", "openmetrics", path, os.path.join(folder, "blocks"))


def classic(text, families):
    """The older format, in which a counter's metric has the name of its samples."""
    counters = {family.name for family in families if family.type == "counter"}
    lines = []
    for line in text.splitlines():
        if line.startswith("# UNIT") or line == "# EOF":
            continue
        match = METADATA.fullmatch(line)
        if match and match[2] in counters:
            line = f"# {match[1]} {match[2]}_total {match[3]}"
        lines.append(line + "\n")
    return "".join(lines)


def main():
    output = subprocess.run(sys.argv[1:], stdout=subprocess.PIPE, check=True).stdout
    text = output.decode("utf-8", "strict")
    families = parse(text)
    if len(families) < 25 or len(text) < 20000:
        sys.exit(f"{len(families)} metrics only")
    pools = [sample[1]["pool"] for family in families if family.name == "stint_pool_workers" for sample in family.samples]
    expected = ["plain", "plain#2", 'a \\"quoted\\" \\\\ name\\nof two lines', "sp\u00e4t", "??(???", "", "stint"]
    if sorted(pools) != sorted(expected):
        sys.exit(f"pools: {pools}")
    accounts = {sample[1]["account"] for family in families if family.name == "stint_account_tasks"
                for sample in family.samples}
    if len(accounts) != 256 or not {"other", "tenant 7", expected[2]} < accounts or "tenant 299" in accounts:
        sys.exit(f"accounts: {sorted(accounts)}")
    if shutil.which("promtool") is None:
        print("promtool is not installed")
        return
    have_imported(text)
    promtool("check", "metrics", text=classic(text, families).encode())


main()
