#!/usr/bin/env bash
# Asks the service what schemathesis makes of its OpenAPI document: no 5xx, no status and no shape that the document doesn't have.
#
#   scripts/schemathesis_check.sh [binary]
#
# Needs schemathesis 4 on PATH, or its folder in SCHEMATHESIS_BIN (pip install schemathesis). EXAMPLES is how many requests each route gets
# (100), SEED what they are made from. Runs twice: without keys, and with one, where requests without it must get 401.
set -euo pipefail
cd "$(dirname "$0")/.."

binary="${1:-$PWD/target/release/sightline}"
st="${SCHEMATHESIS_BIN:+$SCHEMATHESIS_BIN/}schemathesis"
key="a-key-of-the-schemathesis-check"
folder="$(mktemp -d)"
server=""
stop() { [[ -z "$server" ]] || { kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; server=""; }; }
trap 'stop; rm -rf "$folder"' EXIT

command -v "$st" >/dev/null || { echo "schemathesis_check: there is no $st: run pip install schemathesis" >&2; exit 2; }

start() { # name of the run, then more arguments of serve
  local name="$1"; shift
  "$binary" serve --port 0 --data-dir "$folder/data" --root "$folder/roots" --log warn "$@" 2>"$folder/$name.log" &
  server=$!
  for _ in $(seq 300); do
    url="$(sed -n 's/.*listening on \(http[^ ]*\).*/\1/p' "$folder/$name.log")"
    [[ -n "$url" ]] && curl -sf -o "$folder/ready" "$url/ready" && return 0
    sleep 0.2
  done
  echo "schemathesis_check: the service did not start" >&2; cat "$folder/$name.log" >&2; exit 1
}

ready() { # a repository `demo` for the questions
  mkdir -p "$folder/roots/demo"
  cp src/vector.rs src/types.rs src/fsio.rs "$folder/roots/demo/"
  curl -sf -X PUT "$url/v1/repositories/demo" -H 'Content-Type: application/json' \
    -d "{\"source\": {\"path\": \"$folder/roots/demo\"}}" -o "$folder/begun"
  for _ in $(seq 600); do
    curl -sf "$url/v1/repositories/demo" | grep -q '"status":"ready"' && return 0
    sleep 0.5
  done
  echo "schemathesis_check: demo was never ready" >&2; exit 1
}

# Half of the requests go to what there is: schemathesis would hardly guess a name. `demo` must stay for the others.
export SCHEMATHESIS_HOOKS=hooks
cat >"$folder/hooks.py" <<'HOOKS'
import schemathesis


def is_change(operation):
    return operation.method.upper() in ("DELETE", "PUT") or operation.path.endswith("/snapshot")


@schemathesis.hook
def map_path_parameters(context, path_parameters):
    if path_parameters and "repo" in path_parameters and len(str(path_parameters["repo"])) % 2:
        path_parameters["repo"] = "other" if is_change(context.operation) else "demo"
    return path_parameters


@schemathesis.hook
def filter_case(context, case):
    return not (is_change(case.operation) and (case.path_parameters or {}).get("repo") == "demo")
HOOKS

# A list of too many items is 413, which schemathesis doesn't count as a refusal by itself.
cat >"$folder/schemathesis.toml" <<'TOML'
[checks.negative_data_rejection]
expected-statuses = [400, 401, 403, 404, 405, 406, 413, 415, 422, 428]
TOML

check() { # name of the run, then more arguments of schemathesis
  local name="$1"; shift
  echo "== $name"
  # What is refused or taken beyond the schema is told in words (k is clamped, a path must exist): `positive_data_acceptance` can't know.
  (cd "$folder" && PYTHONPATH="$folder" "$st" run "$url/openapi.json" --checks all \
    --exclude-checks "positive_data_acceptance${SKIPPED:+,$SKIPPED}" \
    --max-examples "${EXAMPLES:-100}" --seed "${SEED:-1}" --request-timeout 30 --continue-on-failure --no-color --suppress-health-check all "$@") || failed=1
}

failed=0
start open
ready
check "without keys"
curl -sf "$url/health" -o "$folder/health" || { echo "the service is gone" >&2; failed=1; }
grep -E 'ERROR|panicked' "$folder/open.log" && failed=1
stop

printf '%s\n' "$key" >"$folder/keys"
start keys --keys-file "$folder/keys"
check "with a key" --header "Authorization: Bearer $key"
# The document can't say that a key is asked for where there are keys, so schemathesis doesn't try without one.
curl -s "$url/openapi.json" -H "Authorization: Bearer $key" | python3 -c '
import json, sys
for path, methods in json.load(sys.stdin)["paths"].items():
    for method in methods.keys() & {"get", "put", "post", "delete"}:
        print(method.upper(), path.replace("{repo}", "demo").replace("{job}", "0" * 32))
' >"$folder/operations"
while read -r method path; do
  for given in "X-None: 1" "Authorization: Bearer ${key}x" "Authorization: Basic $key"; do
    status="$(curl -s -o "$folder/answer" -w '%{http_code}' -X "$method" "$url$path" -H "$given" -H 'Content-Type: application/json' -d '{}')"
    case "$path $status" in
      "/health 200" | "/ready 200" | "/openapi.json 200" | *" 401") ;;
      *) echo "without the key ($given) $method $path gave $status"; failed=1 ;;
    esac
  done
done <"$folder/operations"
echo "without the key: $(wc -l <"$folder/operations") operations were asked"
grep -E 'ERROR|panicked' "$folder/keys.log" && failed=1
stop
[[ "$failed" == 0 ]] && echo "schemathesis_check: ok"
exit "$failed"
