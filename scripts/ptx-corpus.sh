#!/usr/bin/env bash
# Reads PTX files, prints them, reads that again, and assembles both texts: the code must be the same.
#
#   scripts/ptx-corpus.sh PATH…        PTX files, and folders to look for them in
#
#   PTXAS=/path/to/ptxas               the assembler (else the one in PATH or in .tools/cuda)
#   JOBS=N                             files at a time (else one a core)
#   PTXAS_FLAGS='-O1'                  further flags
#
# Code, constants, initial values, kernel information and relocations are compared (see
# r3-ptx/examples/same_code.rs). Files whose original text the assembler refuses are only read and printed. Ends
# with the counts, and fails if a file could not be read, gave another tree, or other code.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

[ $# -gt 0 ] || die "no PTX given (the head of this script says how)"
PATH=$PATH:$tools/cuda/bin
ptxas=${PTXAS:-$(command -v ptxas || true)}
[ -x "$ptxas" ] || die "no ptxas: set PTXAS, or run scripts/setup.sh --cuda"
jobs=${JOBS:-$(nproc)}
target=${CARGO_TARGET_DIR:-$root/target}

(cd "$root" && cargo build --quiet --release --package r3-ptx --example reprint --example same_code)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
find "$@" -type f -name '*.ptx' -print0 >"$work/list"

# One file: prints a line `verdict<TAB>file<TAB>what`.
one() {
    local file=$1 dir
    dir=$(mktemp -d "$work/XXXXXX")
    if ! "$examples/reprint" "$file" >"$dir/b.ptx" 2>"$dir/why"; then
        printf 'unread\t%s\t%s\n' "$file" "$(head -n 5 "$dir/why" | tr '\n\t' '  ')"
    else
        cp "$file" "$dir/a.ptx"
        local flags=(-arch "$(sed -n 's/^ *\.target[ \t]*\([a-z0-9_]*\).*/\1/p' "$dir/b.ptx" | head -n 1)") more
        grep -q '^ *\.target.*debug' "$dir/b.ptx" && flags+=(-g)
        # shellcheck disable=SC2206 # flags are words
        more=(${PTXAS_FLAGS:-})
        flags+=("${more[@]}")
        # Old architectures are no longer assembled: then for a newer one.
        if ! "$ptxas" "${flags[@]}" "$dir/a.ptx" -o "$dir/a.cubin" >"$dir/log" 2>&1; then
            if grep -q 'Unresolved extern\|compile-only' "$dir/log"; then
                flags+=(-c)
            elif grep -q "gpu-name\|is not defined for option" "$dir/log"; then
                flags[1]=${NEWER:-sm_75}
            fi
            "$ptxas" "${flags[@]}" "$dir/a.ptx" -o "$dir/a.cubin" >"$dir/log" 2>&1 || rm -f "$dir/a.cubin"
        fi
        if [ ! -e "$dir/a.cubin" ]; then
            printf 'refused\t%s\t%s\n' "$file" "$(grep -v 'aborted' "$dir/log" | head -n 1 | tr '\t' ' ')"
        elif ! "$ptxas" "${flags[@]}" "$dir/b.ptx" -o "$dir/b.cubin" >"$dir/log" 2>&1; then
            printf 'other\t%s\tprinted text is refused: %s\n' "$file" "$(head -n 1 "$dir/log" | tr '\t' ' ')"
        elif ! "$examples/same_code" "$dir/a.cubin" "$dir/b.cubin" >"$dir/log" 2>&1; then
            printf 'other\t%s\t%s\n' "$file" "$(tr '\n\t' '  ' <"$dir/log")"
        else
            printf 'same\t%s\t\n' "$file"
        fi
    fi
    rm -rf "$dir"
}
export -f one
export work ptxas PTXAS_FLAGS NEWER
export examples=$target/release/examples

# shellcheck disable=SC2016  # for the inner shell
xargs -0 -r -P "$jobs" -I{} bash -c 'one "$1"' _ {} <"$work/list" >"$work/verdicts"

count() { grep -c "^$1	" "$work/verdicts" || true; }
grep -v '^same' "$work/verdicts" | sort || true
say "$(wc -l <"$work/verdicts") files: $(count same) give the same code, $(count other) other code," \
    "$(count unread) could not be read; $(count refused) are read but refused by this assembler"
[ "$(count other)" = 0 ] && [ "$(count unread)" = 0 ]
