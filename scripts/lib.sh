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

# room GB WHAT: says so when less is free on this disk than WHAT needs from scratch. What was built before may
# be enough, so nothing stops here.
room() {
    local free
    free=$(df -Pk "$root" | awk 'NR == 2 { print int($4 / 1048576) }')
    [ "${free:-$1}" -ge "$1" ] || say "only $free GiB are free on the disk of $root; $2 takes up to $1: where it ends with \"No space left\" or a bus error, make room"
}

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
