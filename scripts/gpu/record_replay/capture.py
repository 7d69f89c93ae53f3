"""Stage capture (not part of `all`): writes capture-samples/archives and the table of its README."""

import re
import shutil
import tarfile

from . import samples
from .session import SAMPLES

ARCHIVES = SAMPLES / "archives"
LARGEST = 300_000
BEGIN, END = "<!-- table: made by scripts/gpu/capture-samples.sh --table -->", "<!-- end of table -->"


def write_table(specs):
    """The README's table, from samples.toml and the archives that are there."""
    lines = ["| program | exercises | archive | launches | KB | replays |", "|---|---|---|---|---|---|"]
    for name, spec in specs.items():
        path = ARCHIVES / f"{name}.r3"
        size = f"{path.stat().st_size / 1000:.0f}" if path.exists() else "-"
        link = f"[`{name}.r3`](archives/{name}.r3)" if path.exists() else "not yet captured"
        how = "bit for bit" if spec["check"] == "exact" else "within measured noise"
        lines.append(f"| `{name}` | {spec['exercises']} | {link} | {spec['launches']} | {size} | {how} |")
    readme = SAMPLES / "README.md"
    text = readme.read_text()
    pattern = re.escape(BEGIN) + r".*?" + re.escape(END)
    table = "\n".join([BEGIN, *lines, END])
    readme.write_text(re.sub(pattern, lambda _: table, text, count=1, flags=re.S))


def run(session, report):
    session.home()
    samples.build(session)
    ARCHIVES.mkdir(exist_ok=True)
    for name in session.samples:
        ok, fields, note, failing, archive = samples.one(session, name, folder="capture")
        size = archive.stat().st_size if archive else 0
        if ok and size > LARGEST:
            ok, note = False, f"{size} bytes, more than {LARGEST}"
        report.add("capture", name, ok, note, **fields)
        if ok:
            shutil.copyfile(archive, ARCHIVES / f"{name}.r3")
        else:
            report.details(*failing)
    report.table("capture")
    write_table(session.samples)
    with tarfile.open(session.out / "archives.tar", "w") as tar:
        for path in sorted(ARCHIVES.glob("*.r3")):
            tar.add(path, arcname=f"archives/{path.name}")
