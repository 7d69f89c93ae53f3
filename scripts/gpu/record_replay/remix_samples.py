"""Stage remix-samples: the archives of capture-samples, their kernels by O0, O3 and ten random pipelines."""

from concurrent.futures import ThreadPoolExecutor

from .remixing import both, tolerances
from .session import SAMPLES, Unavailable

STAGE = "remix-samples"
ARCHIVES = SAMPLES / "archives"
MACHINE_CODE_ONLY = {"wilson_sass"}


def run(session, report):
    session.home()
    archives = sorted(path for path in ARCHIVES.glob("*.r3") if path.stem not in MACHINE_CODE_ONLY)
    if not archives:
        raise Unavailable(f"no archives in {ARCHIVES}")

    def one(archive):
        noise = session.samples.get(archive.stem, {}).get("check") == "noise"
        given = tolerances(session, archive, archive.stem) if noise else []
        return both(session, archive, f"remix-{archive.stem}", *given)

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(one, archives))
    failures = []
    for archive, (good, fields, note, failing) in zip(archives, results):
        report.add(STAGE, archive.stem, good, note, **fields)
        failures += failing
    report.details(*failures)
    total = {key: sum(result[1].get(key, 0) for result in results) for key in results[0][1] if key != "s"}
    report.add(STAGE, "all", None, **total)
    report.table(STAGE)
