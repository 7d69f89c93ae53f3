# Sourced by the scripts beside it: where things are, and how to say what happens.
# shellcheck shell=bash

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
tools=$root/.tools

# Tools that setup.sh fetched come after what the machine has, so that a developer's own win.
PATH=$PATH:${CARGO_HOME:-$HOME/.cargo}/bin:$tools/test/bin:$tools/package/bin
export PATH
# Where R3's programs look for NVIDIA's assembler, besides the usual places.
export R3_TOOLS=$tools

step() { printf '\n== %s\n' "$*"; }
say() { printf '%s\n' "$*"; }
die() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}
have() { command -v "$1" >/dev/null 2>&1; }

# The browser that tests open a report in; fails where there is none. tests/browser looks for the same names.
browser() {
    [ -z "${R3_BROWSER:-}" ] || { printf '%s\n' "$R3_BROWSER" && return; }
    local name
    for name in chromium-headless-shell chrome-headless-shell chromium chromium-browser google-chrome; do
        ! command -v "$name" || return 0
    done
    return 1
}

# The version in the workspace's Cargo.toml.
version() { sed -n '/^\[workspace.package\]/,/^\[/s/^version *= *"\(.*\)"/\1/p' "$root/Cargo.toml"; }
