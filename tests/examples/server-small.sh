#!/bin/sh
# SPDX-License-Identifier: MIT
# server-small.sh PROGRAM BOMBS: the answers to a good document, a bad one, and bombs of time and
# memory; and nothing is parsed for a client that has left.
set -eu
program=$1
bombs=$2
where=$(mktemp -d)
"$program" 0 >"$where/url" &
server=$!
trap 'kill $server 2>/dev/null || true; wait $server 2>/dev/null || true; rm -rf "$where"' EXIT
while ! [ -s "$where/url" ]; do sleep 0.01; done
url=$(cat "$where/url")

# check FILE ANSWER [ANOTHER]
check() {
  answer=$(curl -s -w '%{http_code}' --data-binary "@$1" "$url")
  [ "$answer" = "$2" ] || [ "$answer" = "${3:-$2}" ] || { echo "$1: $answer instead of $2" >&2; exit 1; }
}

echo '<a><b/><b>text<c/></b></a>' >"$where/good.xml"
echo '<a>' >"$where/bad.xml"
(printf '<a'; seq 1 200000 | sed 's/.*/ a&=""/' | tr -d '\n'; echo '/>') >"$where/many-attributes.xml"
head -c 9000000 /dev/zero >"$where/large.xml"
good='4 elements
200'
check "$where/good.xml" "$good"
check "$where/bad.xml" 'this is no XML
400'
check "$where/many-attributes.xml" deadline422 memory-limit422 # libxml2 2.15 has a table of them, which is larger
check "$where/large.xml" 'a document has from 1 byte to 8 MiB
413'
(printf '<a>'; yes '<b></b>' | head -n 500000; echo '</a>') >"$where/tree.xml"
check "$where/tree.xml" memory-limit422
check "$bombs/billion-laughs.xml" '1 elements
200' 'this is no XML
400' # libxml2 2.15 expands no such entities

# The child is killed when the client leaves, long before the two seconds are over.
children() {
  ps -o comm= --ppid "$(pgrep -P "$(pgrep -P $server)")" | grep -c '^stint-child' || true
}
curl -s --data-binary "@$where/many-attributes.xml" "$url" & client=$!
while [ "$(children)" = 0 ]; do sleep 0.01; done
kill $client
turns=0
while [ "$(children)" != 0 ]; do
  turns=$((turns + 1))
  [ $turns -le 100 ] || { echo "its child goes on" >&2; exit 1; }
  sleep 0.01
done
check "$where/good.xml" "$good"
kill $server
wait $server
trap 'rm -rf "$where"' EXIT
