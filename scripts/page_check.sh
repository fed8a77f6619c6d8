#!/usr/bin/env bash
# Drives the web page in Debian's chromium over the built binary. Needs node 20, npm, and `apt-get install chromium`.
#
#   scripts/page_check.sh [binary]
#
# PAGE_SHOTS=folder keeps a picture of each test's last screen. PAGE_URL=http://127.0.0.1:8080/ tests a server that runs already.
# PAGE_SOURCES=1 tests the page as it lies in src/server/page, over a binary that was built before.
set -euo pipefail
cd "$(dirname "$0")/.."

PAGE_BINARY=$(realpath "${1:-target/release/sightline}")
export PAGE_BINARY
if [[ -z "${PAGE_URL:-}" && ! -x "$PAGE_BINARY" ]]; then
  echo "page_check: there is no binary $PAGE_BINARY: run cargo build --release" >&2
  exit 2
fi
if [[ ! -x "${CHROMIUM:-/usr/bin/chromium}" ]]; then
  echo "page_check: there is no chromium: run apt-get install chromium, or name one in CHROMIUM" >&2
  exit 2
fi

cd tests/browser
[[ node_modules/.package-lock.json -nt package-lock.json ]] || npm ci --silent
exec node --test --test-concurrency=1 --test-timeout=900000 page.test.mjs
