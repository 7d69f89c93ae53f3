"""Stage runtimes: a program on CUDA runtime libraries of other versions.

RUNTIMES_FOLDER names a folder with libcudart.so.* files, in folders named by version (from the wheels nvidia-cuda-runtime-cu11
and -cu12). Before version 12 the runtime loads device code through a private table of the driver.
"""

import os
import pathlib

from .recording import compare
from .session import SOURCES, Unavailable


def run(session, report):
    session.home()
    folder = os.environ.get("RUNTIMES_FOLDER")
    libraries = sorted(pathlib.Path(folder).glob("*/libcudart.so.*")) if folder else []
    if not libraries:
        raise Unavailable("no runtime libraries: RUNTIMES_FOLDER is not set, or has none")
    built, made = session.build(SOURCES, "measuring")
    program = built / "older_runtime"
    if not program.exists():
        report.add("runtimes", "build", False, made.why())
        report.details(made)
        return
    for library in libraries:
        name = f"runtime-{library.parent.name}"
        ok, fields, note, failing, _ = compare(session, name, [program, library.resolve()], folder="runtimes", limit=45,
                                               launches=3)
        report.add("runtimes", library.parent.name, ok, note, **fields)
        if failing:
            report.details(*failing)
    report.table("runtimes")
