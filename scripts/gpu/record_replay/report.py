"""Rows of results: a table for people, JSON lines for programs, totals and the exit code."""

import json
import time


class Report:
    """Collects rows. `ok` of a row is True, False, or None for a number without a verdict."""

    def __init__(self, session):
        self.session = session
        self.rows = []
        self.run = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        self.file = (session.out / "results.jsonl").open("a")

    def add(self, stage, name, ok, note="", **fields):
        row = {"stage": stage, "name": name, "ok": ok, "note": note, **fields}
        self.rows.append(row)
        self.write(row)
        return row

    def write(self, row):
        """Writes one line of results.jsonl."""
        self.file.write(json.dumps({"run": self.run, **row}) + "\n")
        self.file.flush()

    def details(self, *outcomes):
        """First 40 lines of what failing commands said."""
        for outcome in outcomes:
            if outcome is None:
                continue
            print(f"    $ {' '.join(outcome.command)}   -> {outcome.why()}")
            text = (outcome.stdout + b"\n" + outcome.stderr).decode(errors="replace").strip()
            for line in text.splitlines()[:40]:
                print("    | " + line[:200])

    def text(self, stage):
        """The rows of a stage as a table."""
        rows = [row for row in self.rows if row["stage"] == stage]
        columns = []
        for row in rows:
            columns += [key for key in row if key not in {"stage", "ok", "note", "name", *columns}]
        lines = [["", stage, *columns, ""]]
        for row in rows:
            mark = {True: "ok", False: "FAIL", None: "-"}[row["ok"]]
            lines.append([mark, row["name"], *[shown(row.get(key, "")) for key in columns], row["note"][:110]])
        widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
        drawn = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in lines]
        drawn.insert(1, "-" * max(map(len, drawn)))
        return "\n" + "\n".join(drawn) + "\n"

    def table(self, stage):
        """Prints the rows of a stage."""
        print(self.text(stage), end="", flush=True)

    def totals(self):
        """Prints all tables once more when there are several, and totals; gives the exit code."""
        stages = list(dict.fromkeys(row["stage"] for row in self.rows))
        tables = "".join(self.text(stage) for stage in stages)
        (self.session.out / "tables.txt").write_text(tables)
        if len(stages) > 1:
            print("\n=== all tables" + tables, end="")
        print("\ntotals")
        for stage in stages:
            rows = [row for row in self.rows if row["stage"] == stage and row["ok"] is not None]
            passed = sum(row["ok"] for row in rows)
            print(f"  {stage:14} {passed}/{len(rows)}" + ("" if passed == len(rows) else "   FAILED"))
        failed = [row for row in self.rows if row["ok"] is False]
        for row in failed:
            print(f"  FAIL {row['stage']}/{row['name']}: {row['note'][:150]}")
        print(f"  results: {self.file.name}")
        return 1 if failed or not self.rows else 0


def shown(value):
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value)
