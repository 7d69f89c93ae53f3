"""Puts measured rows into docs/gpu-results.md, between the markers of each stage."""

import json
import pathlib
import re

from .report import shown
from .session import ROOT

DOCUMENT = ROOT / "docs" / "gpu-results.md"
MARK = {True: "yes", False: "**no**", None: ""}


def markdown(rows):
    """The rows of one stage in one run as a Markdown table."""
    columns = []
    for row in rows:
        columns += [key for key in row if key not in {"run", "stage", "name", "ok", "note", *columns}]
    lines = [["", *columns, "kept", "note"], ["---"] * (len(columns) + 3)]
    for row in rows:
        note = row["note"].replace("|", "\\|")
        lines.append([row["name"], *[shown(row.get(key, "")) for key in columns], MARK[row["ok"]], note])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def write_document(results):
    """Replaces each stage's table for which `results` (a results.jsonl) has rows; the last run of a stage counts."""
    rows = [json.loads(line) for line in pathlib.Path(results).read_text().splitlines()]
    text = DOCUMENT.read_text()
    for stage in re.findall(r"<!-- begin (\S+) -->", text):
        mine = [row for row in rows if row["stage"] == stage]
        if not mine:
            continue
        run = max(row["run"] for row in mine)
        machine = next((row for row in rows if row["stage"] == "machine" and row["run"] == run), {})
        where = "; ".join(str(machine[key]) for key in ("gpu", "state", "r3") if key in machine)
        body = f"{run}: {where}\n\n" + markdown([row for row in mine if row["run"] == run])
        text = re.sub(rf"(<!-- begin {stage} -->\n).*?(<!-- end {stage} -->)", lambda m: f"{m[1]}{body}\n{m[2]}", text, flags=re.S)
    DOCUMENT.write_text(text)
