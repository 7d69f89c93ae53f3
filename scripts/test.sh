#!/usr/bin/env bash
# Sets up and runs every check: format, scripts, dependencies, lints, documentation, tests, numba-cuda on the
# software driver (skipped where its packages cannot be fetched). No GPU and no CUDA is needed. CI runs exactly this.
#
#   scripts/test.sh               everything
#   scripts/test.sh FILTER…       only the tests that match (given to cargo nextest)
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$root"

room 8 "what is built for the tests"
"$root/scripts/setup.sh"

# nextest [FILTER…]: the end-to-end tests use the programs as they are built, so these come first, with the
# features that the tests ask of shared crates: otherwise they would be built a second time.
nextest() {
    step "tests"
    browser >/dev/null || say "no browser is there: the test that opens a report in one does nothing (R3_BROWSER names one)"
    cargo build --locked --workspace --lib --bins --tests
    TESTS_PREBUILT=1 cargo nextest run --locked --workspace "$@"
}
if [ $# -gt 0 ]; then
    nextest "$@"
    exit
fi

step "format"
cargo fmt --all --check

step "scripts"
if have shellcheck; then
    # SC2054: commas in nvcc's options are meant.
    git ls-files -z -- '*.sh' .ci/run | xargs -0 shellcheck --external-sources --exclude=SC2054
else
    say "shellcheck is not installed: skipped"
fi

step "dependencies: licences, sources, boundaries"
cargo deny --log-level error check bans licenses sources
scripts/check-boundaries.sh

# Each version of Rust brings new lints: they are errors for the version that R3 is developed with.
deny="-D warnings"
rustc --version | grep -q '^rustc 1\.95\.' || deny=
[ -n "$deny" ] || say "$(rustc --version) is not 1.95: warnings are shown, but are no errors"

step "lints"
# shellcheck disable=SC2086  # one word or several, or none
cargo clippy --locked --workspace --all-targets -- $deny

# A crate's first page links to its modules, private ones included: it is written for who reads the code.
step "documentation"
RUSTDOCFLAGS="$deny --allow rustdoc::private-intra-doc-links" cargo doc --locked --workspace --no-deps
cargo test --locked --workspace --doc --quiet

nextest

# An unmodified third-party program: with the programs as they were built for the tests.
step "numba-cuda"
if scripts/setup.sh --build --numba; then
    TESTS_PREBUILT=1 scripts/numba.sh dev
else
    say "skipped: numba-cuda is not there, see above"
fi
