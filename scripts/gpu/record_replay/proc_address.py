"""Stage proc-address: is what cuGetProcAddress returns always an exported symbol of libcuda?

Asks for every exported name and its base name, at every version that cudaTypedefs.h knows for it, at 13000 and at the
driver's own version, with flags 0, 1 and 2. All answers go into proc-address.tsv.
"""

import json
import pathlib
import re
from collections import Counter, defaultdict

from .session import SOURCES, Unavailable

SUFFIX = re.compile(r"(_v\d+)?(_ptsz|_ptds)?$")


def typedef_versions(session):
    """Versions by base name, from the toolkit's header."""
    cuda = pathlib.Path(session.nvcc()).resolve().parents[1]
    versions = defaultdict(set)
    for header in cuda.glob("**/include/cuda*Typedefs.h"):
        for base, version in re.findall(r"PFN_(cu\w+?)_v(\d{4,5})(?:_ptsz|_ptds)?\b", header.read_text(errors="replace")):
            versions[base].add(int(version))
    return versions


def run(session, report):
    built, made = session.build(SOURCES, "measuring")
    program = built / "proc_address"
    if not program.exists():
        report.add("proc-address", "build", False, made.why())
        report.details(made)
        return
    path = session.run([program, "--path"], log="proc-address-path")
    if not path.ok:
        raise Unavailable(path.why())
    listed = session.run(["nm", "-D", "--defined-only", path.stdout.decode().strip()], log="proc-address-nm")
    exports = sorted({re.sub(r"@.*", "", word) for word in re.findall(r"\s[TtWwiD]\s+(cu[A-Z]\S*)", listed.stdout.decode())})
    if not exports:
        raise Unavailable(f"nm lists no cu* names: {listed.why()}")
    versions = typedef_versions(session)
    # Names that the header knows and libcuda does not export are asked for as well: there the answers may be private.
    names = set(exports) | {SUFFIX.sub("", name) for name in exports} | set(versions)
    queries = [(name, version) for name in sorted(names)
               for version in sorted(versions.get(SUFFIX.sub("", name), set()) | {13000, 13010})]
    stdin = "".join(f"S {name}\n" for name in exports) + "".join(f"Q {name} {version}\n" for name, version in queries)
    tables = {}
    for mode in ([], ["--init"]):
        outcome = session.run([program, *mode], stdin=stdin.encode(), log=f"proc-address{''.join(mode)}", limit=60)
        label = "after cuInit" if mode else "before cuInit"
        if not outcome.ok:
            report.add("proc-address", label, False, outcome.why())
            report.details(outcome)
            continue
        summary = json.loads(outcome.stderr.decode().strip().splitlines()[-1])
        tables[label] = outcome.stdout.decode()
        report.add("proc-address", label, None, "", **{key: value for key, value in summary.items() if key != "initialised"})
    if not tables:
        report.table("proc-address")
        return
    text = list(tables.values())[-1]
    (session.out / "proc-address.tsv").write_text("name\tversion\tflags\tresult\tstatus\texport\n" + text)
    rows = [line.split("\t") for line in text.splitlines()]
    if len(tables) == 2:
        before, after = (set(table.splitlines()) for table in tables.values())
        changed = sorted({line.split("\t")[0] for line in before ^ after})
        report.add("proc-address", "same before and after cuInit", None, f"changed: {changed[:20]}" if changed else "yes")
    unexported = [row for row in rows if row[5].startswith("UNEXPORTED")]
    report.add("proc-address", "answers outside the exports", not unexported,
               f"{len(unexported)} of {sum(row[3] == '0' for row in rows)}; names: {len({row[0] for row in unexported})}")
    aliases = sorted({row[5] for row in rows if "|" in row[5]})
    report.add("proc-address", "addresses with several names", None, f"{len(aliases)}")
    outside, answers = defaultdict(list), defaultdict(list)
    for name, version, flags, _, _, owner in unexported:
        outside[(name, owner)].append(f"{version}:{flags}")
    for name, version, flags, code, _, owner in rows:
        if code == "0" and owner != name and not SUFFIX.search(name).group(0) and not owner.startswith("UNEXPORTED"):
            answers[(name, owner)].append(f"{version}:{flags}")
    other = Counter((row[3], row[4]) for row in rows if row[3] != "0" or row[4] != "0")
    lists = {
        "answers outside the exports (version:flags)":
            [f"{name} -> {owner}: {' '.join(where)}" for (name, owner), where in sorted(outside.items())],
        "addresses with several exported names": aliases,
        "other results (CUresult, status: look-ups)": [f"{key}: {count}" for key, count in sorted(other.items())],
        "base names that another export answers (version:flags)":
            [f"{name} -> {owner}: {' '.join(where)}" for (name, owner), where in sorted(answers.items())],
    }
    with (session.out / "proc-address.txt").open("w") as file:
        for title, lines in lists.items():
            file.write(f"{title}: {len(lines)}\n" + "".join(f"    {line}\n" for line in lines))
            print(f"\n  {title}: {len(lines)}")
            for line in lines[:40]:
                print("    " + line[:150])
    report.table("proc-address")
