#!/bin/sh
# SPDX-License-Identifier: MIT
# bench.sh STINT-BENCH: what the benchmark program prints, writes and returns; not how fast anything is.
set -u
program=$1
folder=$(dirname "$program")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failed=0

# expect WHAT COMMAND...: the command must succeed.
expect() {
    what=$1
    shift
    "$@" || {
        echo "not so: $what" >&2
        failed=1
    }
}

# ends_with STATUS OUTPUT ARGUMENT...: runs the program, both its outputs into a file.
ends_with() {
    wanted=$1 output=$2
    shift 2
    "$program" "$@" >"$output" 2>&1
    [ $? = "$wanted" ]
}

expect '--list names benches' ends_with 0 "$scratch/list" --list
expect 'the list has alloc.pair and its subjects' grep -A 1 -q 'alloc.pair.*ns/op' "$scratch/list"
expect 'a bench that does not exist is a usage error' ends_with 2 "$scratch/out" --only nothing
expect '--runs takes a number' ends_with 2 "$scratch/out" --runs many

quick="--quick --runs 1"
# shellcheck disable=SC2086
expect 'a short run works' ends_with 0 "$scratch/table" $quick --only 'run.*' --json "$scratch/run.json"
expect 'the table has the ratio' grep -q 'stint / new-heap' "$scratch/table"
number='[0-9.e+-]*'
line="^{\"bench\":\"mutex\\.pair\",\"subject\":\"[a-z/-]*\",\"workers\":1,\"unit\":\"[a-z/]*\",\"n\":[1-9][0-9]*,"
line="$line\"median\":$number,\"min\":$number,\"max\":$number,\"p99\":$number}\$"
# shellcheck disable=SC2086
expect 'one bench works' ends_with 0 "$scratch/mutex" $quick --only mutex.pair --json "$scratch/mutex.json" \
    --markdown "$scratch/mutex.md"
expect 'the table has the target' grep -q 'stint / plain .* target: at most 1.2: ' "$scratch/mutex"
expect 'a bench of three subjects and two ratios is five lines' [ "$(wc -l <"$scratch/mutex.json")" = 5 ]
expect 'every line is a figure' [ "$(grep -c "$line" "$scratch/mutex.json")" = 5 ]

# shellcheck disable=SC2086
expect 'the table can be had in Markdown' ends_with 0 "$scratch/out" $quick --only run.empty --markdown "$scratch/table.md"
expect 'the line of the other has figure, ratio and target' \
    grep -q '^| `mutex.pair` | 1 | `stint` .* ns | `plain` .* to .*) .*| 1.20 of `plain`: ' "$scratch/mutex.md"
# shellcheck disable=SC2086
expect 'what the machine takes is measured' ends_with 0 "$scratch/machine" $quick --only 'machine.*' \
    --markdown "$scratch/machine.md"
expect 'it has a row of its own' grep -q '^| `machine.locked` | 1 | `machine` .* ns |  |  |' "$scratch/machine.md"
# shellcheck disable=SC2086
expect 'a stop is measured' ends_with 0 "$scratch/stop" $quick --only cancel.allocating --markdown "$scratch/stop.md"
expect 'the table counts its target in what the machine takes' \
    grep -q 'stint, p99 / machine  *[0-9.e+]* *target: at most 10: ' "$scratch/stop"
expect 'so does the Markdown' grep -q '| p99 10 of `machine`, is .*: ' "$scratch/stop.md"
mkdir "$scratch/bench" "$scratch/docs"
cp -r "$(dirname "$0")/../bench/page" "$(dirname "$0")/../bench/baseline" "$scratch/bench"
expect 'the page is made' "$scratch/bench/page/write" "$folder/.." "$scratch/run.json" "$scratch/table.md" 'scripts/bench'
expect 'the page has the table' grep -q '^| `run.empty` | 1 ' "$scratch/docs/benchmarks.md"
expect 'the page has nothing left to fill in' [ "$(grep -c '@[A-Z]*@' "$scratch/docs/benchmarks.md")" = 0 ]

# What has no noise is the same again.
# shellcheck disable=SC2086
expect 'overshoot is measured' ends_with 0 "$scratch/out" $quick --only '*.overshoot' --json "$scratch/exact.json"
# shellcheck disable=SC2086
expect 'nothing got worse' ends_with 0 "$scratch/out" $quick --only '*.overshoot' --compare "$scratch/exact.json"
sed 's/"median":[^}]*/"median":0.001,"min":0.001,"max":0.001,"p99":0.001/' "$scratch/run.json" >"$scratch/better.json"
# shellcheck disable=SC2086
expect 'what got slower is an error' ends_with 1 "$scratch/out" $quick --only run.empty --compare "$scratch/better.json"
expect 'runs that do not agree are told' grep -q '^DIFFERS run.empty stint/new-heap' "$scratch/out"
expect 'what got slower is named' grep -q '^SLOWER  run.empty stint/new-heap' "$scratch/out"
echo nonsense >"$scratch/nonsense"
expect 'a file of no figures is a usage error' ends_with 2 "$scratch/out" --compare "$scratch/nonsense"

# Alone, without the programs of its peers; then with one that cannot be measured.
cp "$program" "$scratch/stint-bench"
program=$scratch/stint-bench
LD_LIBRARY_PATH=$folder/..
export LD_LIBRARY_PATH
# shellcheck disable=SC2086
expect 'it runs without peers' ends_with 0 "$scratch/out" $quick --only alloc.pair
expect 'a missing peer is named' grep -q 'talloc  *not built: libtalloc-dev is missing' "$scratch/out"
cp /bin/false "$scratch/stint-bench-mimalloc"
# shellcheck disable=SC2086
expect 'a subject that fails is an error' ends_with 1 "$scratch/out" $quick --only run.empty
expect 'a subject that fails is named' grep -q 'FAILED at the subject new-heap' "$scratch/out"
exit $failed
