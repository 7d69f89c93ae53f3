"""Stage aslr: one archive verified 20 times in a row with address-space randomisation on."""

import pathlib
import shutil

from . import samples

TIMES = 20
SAMPLE = "wilson"


def run(session, report):
    setting = pathlib.Path("/proc/sys/kernel/randomize_va_space").read_text().strip()
    _, _, note, failing, archive = samples.one(session, SAMPLE, folder="aslr")
    if archive is None:
        report.add("aslr", SAMPLE, False, f"no archive: {note}")
        report.details(*failing)
        return
    folder = session.folder("aslr", "verify")
    copy = pathlib.Path(shutil.copy(archive, folder))
    outcomes = [session.run([session.replay, "verify", copy], cwd=folder, log=f"aslr-{i}") for i in range(TIMES)]
    passed = sum(outcome.ok for outcome in outcomes)
    seconds = sorted(outcome.seconds for outcome in outcomes)
    report.add("aslr", f"{SAMPLE} x{TIMES}", passed == TIMES and setting != "0", f"randomize_va_space = {setting}",
               passed=passed, median_s=round(seconds[TIMES // 2], 2), slowest_s=round(seconds[-1], 2))
    report.table("aslr")
    report.details(*[outcome for outcome in outcomes if not outcome.ok][:2])
