"""Stage samples: every program of capture-samples, bare, recorded, and verified in a fresh process."""

from concurrent.futures import ThreadPoolExecutor

from .recording import compare
from .session import SAMPLES

WORKERS = 4


def build(session):
    """Builds the sample programs once in a run. Gives their folder and the outcome of make."""
    if not hasattr(session, "sample_programs"):
        session.sample_programs = session.build(SAMPLES / "programs", "samples")
    return session.sample_programs


def one(session, name, folder="samples"):
    """Records one sample and verifies it: the result of `compare`."""
    spec = session.samples[name]
    built, _ = build(session)
    return compare(session, name, [built / name], folder=folder, limit=45, noise=spec["check"] == "noise",
                   launches=spec["launches"])


def run(session, report):
    session.home()
    built, made = build(session)
    if not made.ok:
        report.add("samples", "build", False, made.why())
        report.details(made)
    names = list(session.samples)
    with ThreadPoolExecutor(WORKERS) as pool:
        results = dict(zip(names, pool.map(lambda name: one(session, name) if (built / name).exists() else None, names)))
    session.sample_results = results
    failures = []
    for name, result in results.items():
        if result is None:
            report.add("samples", name, False, "was not built")
            continue
        ok, fields, note, failing, _ = result
        report.add("samples", name, ok, note, **fields)
        failures += [(name, failing)] if failing else []
    for name, failing in failures:
        print(f"\n  {name}:")
        report.details(*failing)
    report.table("samples")
