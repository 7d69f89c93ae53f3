"""Stage remix-attach: a program of machine code only; its source is attached as its build compiled it, then remixed."""

import json
import shutil

from .remixing import both
from .remix_spot import record
from .session import SAMPLES

STAGE = "remix-attach"


def run(session, report):
    session.home()
    folder = session.folder(STAGE, "build")
    source = folder / "wilson.cu"
    shutil.copyfile(SAMPLES / "programs" / "wilson.cu", source)
    shutil.copyfile(SAMPLES / "programs" / "sample.h", folder / "sample.h")
    command = [session.nvcc(), "-O2", "-std=c++17", "-gencode", "arch=compute_90,code=sm_90", "-c", "-o", "wilson.o", "wilson.cu"]
    database = folder / "compile_commands.json"
    database.write_text(json.dumps([{"directory": str(folder), "file": "wilson.cu", "arguments": command}]))
    made = session.run(command, cwd=folder, limit=60, log="attach-compile")
    linked = session.run([session.nvcc(), "-o", "wilson", "wilson.o"], cwd=folder, limit=60, log="attach-link")
    if not (made.ok and linked.ok):
        report.add(STAGE, "build", False, made.why() if not made.ok else linked.why())
        report.details(made, linked)
        report.table(STAGE)
        return
    archive, outcome = record(session, "wilson", [folder / "wilson"])
    if not archive:
        report.add(STAGE, "record", False, outcome.why())
        report.table(STAGE)
        return
    bare = session.run([session.replay, "remix", archive, "-O3"], limit=60, log="attach-bare")
    said = (bare.stdout + bare.stderr).decode(errors="replace")
    report.add(STAGE, "remix without source is refused", bare.code == 2 and "attach" in said, "" if bare.code == 2 else bare.why())
    with_code = archive.with_name("attached.r3")
    attached = session.run([session.replay, "attach", archive, "--source", source, "--compile-commands", database,
                            "--output", with_code, "--device", "cuda"], limit=90, log="attach-attach")
    report.add(STAGE, "attach by compile_commands.json", attached.ok and with_code.exists(), "" if attached.ok else attached.why(),
               s=round(attached.seconds, 1))
    if not with_code.exists():
        report.details(attached)
        report.table(STAGE)
        return
    verified = session.run([session.replay, "verify", with_code, "--device", "cuda", "--code", "attached"], limit=60, log="attach-verify")
    report.add(STAGE, "verify the attached code", verified.ok, "" if verified.ok else verified.why())
    good, fields, note, failing = both(session, with_code, "attach-remix")
    report.add(STAGE, "remix it", good, note, **fields)
    report.details(*failing)
    report.table(STAGE)
