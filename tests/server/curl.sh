#!/bin/sh
# SPDX-License-Identifier: MIT
# curl.sh STINT-SQLD: what the guide shows of the server, as somebody would type it.
set -eu
where=$(mktemp -d)
"$1" --listen 127.0.0.1:0 --workers 2 --timeout 60s >"$where/said" 2>&1 &
server=$!
trap 'kill $server 2>/dev/null || true; wait $server 2>/dev/null || true; rm -rf "$where"' EXIT
tries=0
until url=$(grep -o 'http://[^ ]*/' "$where/said"); do
  tries=$((tries + 1))
  [ $tries -lt 600 ] && kill -0 $server
  sleep 0.1
done
ask() {
  curl --silent --max-time 60 --noproxy '*' "$@"
}
[ "$(ask --data 'SELECT name FROM country LIMIT 2' "${url}query" | tr -d '\n')" = '{"columns":["name"],"rows":[["Aruba"],["Afghanistan"]]}' ]
[ "$(ask --header 'Accept: text/csv' --data "SELECT code, name FROM currency WHERE code = 'EUR'" "${url}query" | tr -d '\r')" = "code,name
EUR,Euro" ]
[ "$(ask --output /dev/null --write-out '%{http_code}' --data 'SELEC' "${url}query")" = 400 ]
[ "$(ask --output /dev/null --write-out '%{http_code}' --header 'Stint-Timeout: 50ms' \
  --data 'SELECT count(*) FROM language a, language b, language c' "${url}query")" = 504 ]
# A body that may be long is announced, and refused before it is sent.
head -c 20000000 /dev/zero | tr '\0' ' ' >"$where/long"
[ "$(ask --output /dev/null --write-out '%{http_code} %{size_upload}' --header 'Expect: 100-continue' \
  --data-binary "@$where/long" "${url}query")" = '413 0' ]
# Broken off, as the rows before the end were sent with 200: that is an error of curl's.
if ask --output "$where/rows" --header 'Stint-Allocation: 2M' --data 'SELECT * FROM language a, language b' "${url}query"; then
  echo 'an answer that was stopped seems to be whole' >&2
  exit 1
fi
grep -q '"reason":"allocation-limit"' "$where/rows"
ask "${url}metrics" | grep -q '^sqld_queries_total{outcome="ok"} 2$'
