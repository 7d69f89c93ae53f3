#!/usr/bin/env bash
# Checks which crates each part of R3 links: the boundaries that ARCHITECTURE.md names.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$root"
bad=0

# linked PACKAGE: all crates that are linked with PACKAGE on x86-64 Linux, without macros.
linked() {
    scripts/crates.py linked "$1"
}

# libr3.so enters other people's processes: every crate in it was decided on, one by one.
allowed="bincode cfg-if cpp_demangle ctor libc libloading link-section lz4_flex memchr memmap2 object
    r3-archive r3-image r3-options regex-lite serde serde_core thiserror unty xxhash-rust zstd zstd-safe zstd-sys"
for crate in $(linked r3-intercept); do
    case " $(echo "$allowed" | xargs) " in
    *" $crate "*) ;;
    *)
        say "libr3.so would link $crate: give the reason in docs/dependencies.md and add it to the list in $0, or do without"
        bad=1
        ;;
    esac
done

# without PACKAGE CRATE…: the parts that can be used alone stay alone.
without() {
    local package=$1 crates crate
    shift
    crates=$(linked "$package")
    for crate in "$@"; do
        if echo "$crates" | grep -qx "$crate"; then
            say "$package links $crate"
            bad=1
        fi
    done
}
without r3-archive r3-image r3-options r3-replay cudarc object
without r3-image r3-archive r3-options r3-replay cudarc
without r3-options r3-archive r3-image r3-replay cudarc
without r3-codegen r3-archive r3-options r3-emu r3-intercept r3-replay cudarc
without r3-ptx r3-codegen r3-emu r3-archive r3-image r3-options r3-replay cudarc
without r3-emu r3-codegen r3-archive r3-image r3-options r3-replay cudarc
without r3-softcuda r3-codegen r3-archive r3-options r3-intercept r3-replay cudarc
without r3-source r3-codegen r3-archive r3-image r3-options r3-emu r3-replay r3-models
without r3-models r3-codegen r3-archive r3-image r3-options r3-emu r3-replay r3-source
# What speaks to other programs is in the programs alone.
for package in r3-archive r3-image r3-options r3-ptx r3-emu r3-codegen r3-softcuda r3-source; do
    without $package tokio hyper axum rusqlite ureq rustls
done
without r3-models tokio hyper axum rusqlite
without r3-replay r3-evolve rusqlite

# only PATTERN FOLDER FILE: what PATTERN stands for is done in FILE alone (nowhere if it is empty).
only() {
    local files
    files=$(grep -rlE --include='*.rs' "$1" "$2" || true)
    [ "$files" = "$3" ] || {
        say "'$1' may be in ${3:-no file of $2} only, and is in: $(echo "$files" | xargs)"
        bad=1
    }
}
only '\bbincode::' r3-archive/src r3-archive/src/codec.rs
environment='\benv::(var|vars)(_os)?\b|\bgetenv\b'
only "$environment" r3-intercept/src r3-intercept/src/process.rs
only "$environment" r3-softcuda/src r3-softcuda/src/process.rs
only "$environment" r3-emu/src ''
only "$environment" r3-models/src ''
only "$environment" r3-source/src ''
only '\bunsafe\b' r3-ptx/src ''
only '\bunsafe\b' r3-models/src ''
# LLVM's own interfaces stay behind r3-codegen's.
for folder in r3-replay/src r3-evolve/src tests/src tests/differential/src; do
    only '\b(inkwell|llvm_sys)::' "$folder" ''
done

# Whoever adds a dependency says why.
for crate in $(scripts/crates.py direct); do
    grep -q "^| $crate\b" docs/dependencies.md || {
        say "$crate is not in docs/dependencies.md: say why it is used, and instead of what"
        bad=1
    }
done

[ $bad = 0 ] || die "a boundary between the crates is broken"
