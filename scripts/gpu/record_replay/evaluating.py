"""What the stages of evaluate.sh and tune.sh share: candidates in, outcomes out; programs recorded here."""

import json

from .session import SOURCES, archives

# Programs of scripts/gpu/src/tune whose levers are known, with the kernel and what is known to help.
KERNELS = {"attention": ("weigh", "registers"), "heat2d": ("heat", "constants of the launch"), "convolution": ("convolution", "block size"),
           "maxpool": ("maxpool", "constants of the launch"), "lombscargle": ("lombscargle", "unrolling and block size"),
           "bilateral": ("bilateral", "constants of the launch")}


def recorded(session, report, stage, names, programs="tune", launches="1,2"):
    """Archives of programs of a folder of scripts/gpu/src, recorded here: (name, archive)."""
    built, made = session.build(SOURCES / programs, programs)
    if not made.ok:
        report.add(stage, "build", False, made.why())
        report.details(made)
    for name in names:
        folder = session.folder(stage, name)
        outcome = session.run([built / name], cwd=folder, limit=90, env=session.shim(folder, R3_LAUNCHES=launches), log=f"{stage}-{name}")
        found = archives(folder)
        if outcome.ok and found:
            yield name, found[0]
        else:
            report.add(stage, name, False, f"not recorded: {outcome.why()}")


def evaluate(session, archive, kernel, candidates, *options, log, limit=180, device="cuda"):
    """Runs `r3-replay evaluate`. Gives (lines with an outcome, summary or None, command's outcome)."""
    path = session.folder("candidates", log) / "candidates.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in candidates))
    outcome = session.run([session.replay, "evaluate", archive, "--kernel", kernel, "--candidates", path, "--device", device,
                           "--json", *options], limit=limit, log=log)
    lines, summary = [], None
    for text in outcome.stdout.decode(errors="replace").splitlines():
        try:
            said = json.loads(text)
        except ValueError:
            continue  # device printf writes to standard output, too
        if "summary" in said:
            summary = said["summary"]
        elif "outcome" in said:
            lines.append(said)
    return lines, summary, outcome


def compiled(label=None, block=None, **build):
    """A candidate that is made of the captured code."""
    line = {"candidate": {"code": {"captured": {}}, "build": build, "launch": {"block": block} if block else {}}}
    if label:
        line["label"] = label
    return line


def total(outcome):
    """Milliseconds of a candidate outside compilation and kernels."""
    cost = outcome["cost"]
    return cost["device"] - cost["kernels"]
