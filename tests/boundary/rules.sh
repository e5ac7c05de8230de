#!/bin/sh
# SPDX-License-Identifier: MIT
# Usage: rules.sh RULES.H CHAOS-RULES INTERRUPTS MASKING...
# For each rule of automatic masking, and the scan of roots: what the tests that are about it do without it, and what becomes of the chaos program
# (- : nothing; it does not come to where the rule is for). Fails where nothing shows that a rule is needed, or where the
# chaos program fails with all of them. CHAOS-RULES may be "none".
set -u
rules=$1 chaos=$2 interrupts=$3
shift 3
cases=$(mktemp)
trap 'rm -f "$cases"' EXIT
for program in "$@"; do
    "$program" --rules >>"$cases" || exit 1
done

try_chaos() {
    [ "$chaos" = none ] && echo - && return
    timeout 300 "$chaos" --interrupts "$interrupts" --seed 1 --without "$1" >/dev/null 2>&1
    case $? in
    0) echo - ;;
    1) echo "wrong answers, or locks held" ;;
    3 | 124) echo hangs ;;
    *) echo crashes ;;
    esac
}

without_none=$(try_chaos 0)
[ "$without_none" = - ] || { echo "chaos with all rules: $without_none"; exit 1; }
missing=0
printf '%-16s | %-34s | %s\n' rule chaos 'directed tests'
for line in $(sed -n 's/^ *STI_RULE_\([A-Z_]*\) = 1 << \([0-9]*\),.*/\1=\2/p' "$rules") ROOTS=31; do
    name=${line%=*} bit=${line#*=}
    in_chaos=$(try_chaos $((1 << bit)))
    directed=$(awk -F '\t' -v bit="$bit" '$1 == bit && $2 != "nothing" && $2 != "otherwise" {
        printf "%s%s: %s", separator, $3, $2; separator = "; " }' "$cases")
    [ "$in_chaos" = - ] && [ -z "$directed" ] && missing=1 && directed='NOTHING'
    printf '%-16s | %-34s | %s\n' "$name" "$in_chaos" "${directed:--}"
done
exit $missing
