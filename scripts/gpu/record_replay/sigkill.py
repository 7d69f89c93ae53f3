"""Stage sigkill: processes killed at random instants while they are recorded; every archive must open."""

import os
import random
import signal
import subprocess
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from .recording import number_of_launches
from .session import SOURCES, archives

KILLS = 50
WORKERS = 5
VERIFIED = 10  # of the kills: those whose archives are replayed as well
KIB, LAUNCHES = 512, 300


def start(session, program, folder):
    """Starts the program recorded; gives it and its archive as soon as the file is there."""
    process = subprocess.Popen([program, str(KIB), str(LAUNCHES)], cwd=folder, env=session.shim(folder, R3_LAUNCHES="all"),
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    give_up = time.monotonic() + 30
    while time.monotonic() < give_up and process.poll() is None:
        if archives(folder):
            return process, archives(folder)[0]
        time.sleep(0.0005)
    return process, None


def kill_once(session, program, number, span):
    """One process killed at a random instant of its recording. Gives what its archive is good for."""
    generator = random.Random(number)
    for attempt in range(5):
        folder = session.folder("sigkill", str(number))
        process, archive = start(session, program, folder)
        if archive is None:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return {"number": number, "problem": f"no archive appeared (exit code {process.returncode})"}
        delay = generator.uniform(0, span)
        time.sleep(delay)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            break
    else:
        return {"number": number, "problem": "the program ended before each kill"}
    result = {"number": number, "delay_ms": delay * 1000, "bytes": archive.stat().st_size, "problem": None}
    info = session.run([session.replay, "info", archive], log=f"sigkill-{number}-info", limit=30)
    fsck = session.run([session.replay, "fsck", archive], log=f"sigkill-{number}-fsck", limit=30)
    result.update(info=info.code, fsck=fsck.code, launches=None, verified=None)
    if not info.ok:
        result.update(problem=f"info: {info.why()}", outcome=info)
    else:
        result["launches"], _ = number_of_launches(session, archive, f"sigkill-{number}")
        if number % (KILLS // VERIFIED) == 0 and result["launches"]:
            verified = session.run([session.replay, "verify", archive], log=f"sigkill-{number}-verify", limit=60)
            result["verified"] = verified.ok
            if not verified.ok:
                result.update(problem=f"verify: {verified.why()}", outcome=verified)
    archive.unlink()
    return result


def run(session, report):
    session.home()
    built, made = session.build(SOURCES, "measuring")
    program = built / "kill_target"
    if not program.exists():
        report.add("sigkill", "build", False, made.why())
        report.details(made)
        return
    folder = session.folder("sigkill", "whole")
    process, archive = start(session, program, folder)
    begun = time.monotonic()
    try:
        code = process.wait(timeout=60)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        code = process.wait()
    span = time.monotonic() - begun
    if archive is None or code != 0:
        report.add("sigkill", "uninterrupted run", False, f"exit code {code}, archive: {archive}")
        report.table("sigkill")
        return
    total, _ = number_of_launches(session, archive, "sigkill-whole")
    report.add("sigkill", "uninterrupted run", total == LAUNCHES, "", recording_ms=round(span * 1000), launches=total)
    archive.unlink()
    with ThreadPoolExecutor(WORKERS) as pool:
        results = list(pool.map(lambda number: kill_once(session, program, number, span), range(KILLS)))
    killed = [result for result in results if "info" in result]
    readable = [result for result in killed if result["info"] == 0]
    counts = sorted(result["launches"] or 0 for result in readable)
    report.add("sigkill", f"{KILLS} kills", len(readable) == KILLS,
               f"launches kept: {counts[0]} to {counts[-1]}, median {counts[len(counts) // 2]}" if counts else "",
               readable=len(readable), fsck=", ".join(f"code {c}: {n}" for c, n in sorted(Counter(r["fsck"] for r in killed).items())))
    tried = [result for result in killed if result["verified"] is not None]
    report.add("sigkill", "verified", bool(tried) and all(result["verified"] for result in tried), "",
               readable=sum(result["verified"] for result in tried), launches=len(tried))
    for result in [result for result in results if result["problem"]][:5]:
        print(f"  kill {result['number']}: {result['problem']}")
        report.details(result.get("outcome"))
    report.table("sigkill")
