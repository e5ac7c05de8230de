#!/bin/sh
# SPDX-License-Identifier: MIT
# Usage: rules.sh RULES.H CHAOS-RULES INTERRUPTS MASKING...
# Switches off each rule of automatic masking, and the scan of roots, and prints how the chaos program ends then, in so
# many random interrupts with up to three seeds, and how the tests of the rule end. Fails if either shows nothing, or if
# the chaos program fails with all rules on. CHAOS-RULES may be "none" if the libraries are missing.
set -u
rules=$1 chaos=$2 interrupts=$3
shift 3
cases=$(mktemp)
said=$(mktemp)
trap 'rm -f "$cases" "$said"' EXIT
for program in "$@"; do
    "$program" --rules >>"$cases" || exit 1
done

# Prints the complaint and the library of the task; nothing if all went well.
run_chaos() {
    timeout 300 "$chaos" --interrupts "$interrupts" "$@" >"$said" 2>&1
    case $? in
    0) ;;
    1) sed -n 's/^FAILED: \([^(:]*[^(: ]\).*/\1/p' "$said" | head -n 1 ;;
    3) echo hangs ;;
    124) echo 'takes too long' ;; # that shows nothing
    134 | 135 | 136 | 139) echo crashes ;;
    *) cat "$said" >&2 && echo 'does not run' ;;
    esac
    sed -n 's/^FAILED.*--library \([^ ]*\) .*/ (\1)/p;s/.*last task of this thread:.*--library \([^ ]*\) .*/ (\1)/p' \
        "$said" | head -n 1
}

try_chaos() {
    for seed in 1 2 3; do
        complaint=$(run_chaos --seed $seed "$@" | tr -d '\n')
        [ -n "$complaint" ] && break
    done
    echo "$complaint"
}

if [ "$chaos" != none ]; then
    complaint=$(try_chaos)
    [ -z "$complaint" ] || { echo "chaos with all rules: $complaint"; cat "$said"; exit 1; }
fi
missing=0
printf '%-16s | %-40s | %s\n' rule chaos 'directed tests'
for line in $(sed -n 's/^ *STI_RULE_\([A-Z_]*\) = 1 << \([0-9]*\),.*/\1=\2/p' "$rules") ROOTS=31; do
    name=${line%=*} bit=${line#*=}
    in_chaos='not built'
    [ "$chaos" = none ] || in_chaos=$(try_chaos --patience 10 --without $((1 << bit)))
    directed=$(awk -F '\t' -v bit="$bit" '$1 == bit && $2 != "nothing" && $2 != "otherwise" {
        printf "%s%s: %s", separator, $3, $2; separator = "; " }' "$cases")
    case $in_chaos in '' | 'does not run' | 'takes too long'*) missing=1 ;; esac
    [ -n "$directed" ] || missing=1
    printf '%-16s | %-40s | %s\n' "$name" "${in_chaos:-NOTHING}" "${directed:-NOTHING}"
done
exit $missing
