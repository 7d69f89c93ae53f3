"""Stage frameworks: unmodified PyTorch, Triton, CuPy and JAX programs, the same way as the samples."""

import shutil
from concurrent.futures import ThreadPoolExecutor

from .recording import compare
from .session import SAMPLES, Unavailable

SIDE_BY_SIDE = ["torch_ops", "triton_softmax", "cupy_raw"]
# JAX reserves three quarters of the GPU's memory at start, and its launches reach all of it: it runs alone.
ALONE = ["jax_jit"]


def run(session, report):
    session.home()
    python = shutil.which("python3")
    if python is None:
        raise Unavailable("no python3 on the PATH")

    def one(name):
        return compare(session, name, [python, SAMPLES / "python" / f"{name}.py"], folder="frameworks", limit=60,
                       noise=True)

    with ThreadPoolExecutor(len(SIDE_BY_SIDE)) as pool:
        results = dict(zip(SIDE_BY_SIDE, pool.map(one, SIDE_BY_SIDE)))
    for name in ALONE:
        results[name] = one(name)
    for name, (ok, fields, note, _, _) in results.items():
        report.add("frameworks", name, ok, note, **fields)
    for name, (_, _, _, failing, _) in results.items():
        if failing:
            print(f"\n  {name}:")
            report.details(*failing)
    report.table("frameworks")
