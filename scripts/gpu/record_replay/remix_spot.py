"""Stage remix-spot: programs of NVRTC, CuPy and Triton, recorded on this machine, their kernels compiled anew."""

import shutil

from . import samples
from .remixing import both
from .session import SAMPLES, archives

STAGE = "remix-spot"


def record(session, name, command, **options):
    """Records a program. Gives its archive, or None, and the outcome."""
    folder = session.folder(STAGE, name)
    outcome = session.run(command, cwd=folder, limit=90, env=session.shim(folder, **options), log=f"spot-{name}")
    found = archives(folder)
    return (found[0] if outcome.ok and found else None), outcome


def attach(session, archive, cache, log):
    """Attaches what lies in a cache of Triton's. Gives the archive with it and the outcome."""
    with_code = archive.with_name(f"{archive.stem}-attached.r3")
    outcome = session.run([session.replay, "attach", archive, "--output", with_code, "--device", "cuda", "--triton-cache", cache],
                          limit=60, log=f"{log}-attach")
    return (with_code if with_code.exists() else None), outcome


def row(session, report, name, archive, *options):
    good, fields, note, failing = both(session, archive, f"spot-{name}", *options)
    report.add(STAGE, name, good, note, **fields)
    report.details(*failing)


def triton(session, report, python, program, kernel, name):
    """Triton loads machine code; its cache has the PTX and the LLVM IR of the same kernels. Gives the archive with them."""
    folder = name.replace(" ", "-")
    cache = session.folder(STAGE, f"{folder}-cache")
    archive, outcome = record(session, folder, [python, SAMPLES / "python" / program], TRITON_CACHE_DIR=cache, R3_KERNEL=kernel)
    if not archive:
        report.add(STAGE, name, False, f"not recorded: {outcome.why()}")
        return None
    attached, outcome = attach(session, archive, cache, folder)
    if attached:
        row(session, report, f"{name}, PTX attached", attached)
    else:
        report.add(STAGE, f"{name}, PTX attached", False, outcome.why())
        report.details(outcome)
    return attached


def run(session, report):
    session.home()
    built, _ = samples.build(session)
    python = shutil.which("python3")
    # NVRTC: one kernel as PTX, one as machine code beside its recorded source.
    archive, outcome = record(session, "nvrtc", [built / "nvrtc"])
    if archive:
        row(session, report, "nvrtc", archive)
    else:
        report.add(STAGE, "nvrtc", False, f"not recorded: {outcome.why()}")
    archive, outcome = record(session, "cupy", [python, SAMPLES / "python" / "cupy_raw.py"])
    if archive:
        row(session, report, "cupy", archive)
    else:
        report.add(STAGE, "cupy", False, f"not recorded: {outcome.why()}")
    softmax = triton(session, report, python, "triton_softmax.py", "softmax_kernel", "triton")
    if softmax:
        # Triton's own back end fuses multiplications and additions in this IR; LLVM does not without being told.
        good, fields, note, failing = both(session, softmax, "spot-triton-llir", "--from", "llvm", "--launch", "1", "--type",
                                           "all=f32", "--tolerance", "rel=1e-5,abs=1e-6")
        report.add(STAGE, "triton, its own LLVM IR", good, note, **fields)
        report.details(*failing)
    # Asynchronous warp-group products and copies: inline assembly, between which everything else moves.
    triton(session, report, python, "triton_matmul.py", "matmul_kernel", "triton matmul")
    report.table(STAGE)
