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
    # Triton loads machine code; its cache has the PTX and the LLVM IR of the same kernels.
    cache = session.folder(STAGE, "triton-cache")
    archive, outcome = record(session, "triton", [python, SAMPLES / "python" / "triton_softmax.py"], TRITON_CACHE_DIR=cache,
                              R3_KERNEL="softmax_kernel")
    if not archive:
        report.add(STAGE, "triton", False, f"not recorded: {outcome.why()}")
    else:
        attached, outcome = attach(session, archive, cache, "triton")
        if attached:
            row(session, report, "triton, PTX attached", attached)
        else:
            report.add(STAGE, "triton, PTX attached", False, outcome.why())
            report.details(outcome)
        if attached:
            # Triton's own back end fuses multiplications and additions in this IR; LLVM does not without being told.
            good, fields, note, failing = both(session, attached, "spot-triton-llir", "--from", "llvm", "--launch", "1", "--type",
                                               "all=f32", "--tolerance", "rel=1e-5,abs=1e-6")
            report.add(STAGE, "triton, its own LLVM IR", good, note, **fields)
            report.details(*failing)
    report.table(STAGE)
