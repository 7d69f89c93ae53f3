"""Stage capture (not part of `all`): the archives of stage samples become capture-samples/archives."""

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
    if not hasattr(session, "sample_results"):
        samples.run(session, report)
    ARCHIVES.mkdir(exist_ok=True)
    for name, result in session.sample_results.items():
        ok, fields, _, _, archive = result or (False, {}, "", [], None)
        size = archive.stat().st_size if archive else 0
        note = "" if ok else "see the samples stage"
        if ok and size > LARGEST:
            ok, note = False, f"{size} bytes, more than {LARGEST}"
        if ok:
            shutil.copyfile(archive, ARCHIVES / f"{name}.r3")
        report.add("capture", name, ok, note, launches=fields.get("launches", ""), KB=round(size / 1000, 1))
    report.table("capture")
    write_table(session.samples)
    with tarfile.open(session.out / "archives.tar", "w") as tar:
        for path in sorted(ARCHIVES.glob("*.r3")):
            tar.add(path, arcname=f"archives/{path.name}")
