"""Stage frameworks: unmodified PyTorch, Triton, CuPy and JAX programs, the same way as the samples."""

import shutil
from concurrent.futures import ThreadPoolExecutor

from .recording import compare
from .session import SAMPLES, Unavailable

# JAX reserves most of the GPU's memory at start unless told otherwise; a snapshot of a launch then holds that one
# allocation whole. This variable is JAX's own, and is set for the bare run as well.
SCRIPTS = {
    "torch_ops": {},
    "triton_softmax": {},
    "cupy_raw": {},
    "jax_jit": {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"},
}


def run(session, report):
    session.home()
    python = shutil.which("python3")
    if python is None:
        raise Unavailable("no python3 on the PATH")

    def one(name):
        return compare(session, name, [python, SAMPLES / "python" / f"{name}.py"], folder="frameworks", limit=60,
                       noise=True, env=SCRIPTS[name])

    with ThreadPoolExecutor(len(SCRIPTS)) as pool:
        results = dict(zip(SCRIPTS, pool.map(one, SCRIPTS)))
    for name, (ok, fields, note, _, _) in results.items():
        report.add("frameworks", name, ok, note, **fields)
    for name, (_, _, _, failing, _) in results.items():
        if failing:
            print(f"\n  {name}:")
            report.details(*failing)
    report.table("frameworks")
