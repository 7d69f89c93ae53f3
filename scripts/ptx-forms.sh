#!/usr/bin/env bash
# Compares the table of PTX forms with an assembler, and random kernels with it, too.
#
#   scripts/ptx-forms.sh [ptxas] [version]      default: ptxas of the PATH, PTX 9.0
#
# Prints each instruction that the assembler refuses, with its message, and counts at the end. Refusals are not
# errors by themselves: the table has spellings of old versions ("old"), and combinations that need another target.
# A random kernel that is refused is an error.
set -euo pipefail
cd "$(dirname "$0")/.."
ptxas=${1:-ptxas}
version=${2:-9.0}
command -v "$ptxas" > /dev/null || { echo "$ptxas: not found; give the path of ptxas" >&2; exit 2; }

cargo build --quiet --release -p r3-ptx --example forms --example random
target=${CARGO_TARGET_DIR:-target}/release/examples
"$target/forms" --ptxas "$ptxas" --version "$version"

directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
count=${RANDOM_KERNELS:-100}
"$target/random" "$directory" 0 "$count"
refused=0
for file in "$directory"/*.ptx; do
    "$ptxas" -O0 -arch sm_90 -o /dev/null "$file" || refused=$((refused + 1))
done
echo "$count random kernels, $refused refused"
[ "$refused" -eq 0 ]
