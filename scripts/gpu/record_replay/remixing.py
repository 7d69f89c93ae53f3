"""What the stages of remix.sh share: r3-replay remix on an archive, and what it says as rows."""

import json
import shutil

RIGHT = ("identical", "as_original", "within")
PIPELINES = ["--random-pipelines", "10", "--seed", "1"]


def tolerances(session, archive, log):
    """Tolerances for an archive whose program is not the same from run to run: measured."""
    folder = session.folder("remix-noise", log)
    path = folder / "tolerances.toml"
    copy = folder / archive.name
    shutil.copyfile(archive, copy)
    measured = session.run([session.replay, "noise", copy, "--out", path], cwd=folder, limit=60, log=f"{log}-noise")
    return ["--tolerance-file", path] if measured.ok else []


def remix(session, archive, log, *options, limit=120):
    """Runs `r3-replay remix --json`. Gives the report, or None, and the outcome."""
    command = [session.replay, "remix", archive, "--device", "cuda", "--json", *options]
    outcome = session.run(command, limit=limit, log=log)
    # Kernels that print do so on standard output, too.
    text = outcome.stdout.decode(errors="replace")
    try:
        return json.JSONDecoder().raw_decode(text, max(text.find('{\n  "version"'), 0))[0], outcome
    except ValueError:
        return None, outcome


def trials(report):
    """Every launch with every code: (kernel, candidate, trial)."""
    for kernel in report["kernels"]:
        for candidate in kernel["candidates"]:
            for trial in candidate["launches"]:
                yield kernel, candidate, trial


def sums(reports):
    """Numbers for a row, and the first things that are wrong."""
    fields = dict.fromkeys(("kernels", "compiled", "runs", "same_bits", "as_original", "within", "failed", "as_text"), 0)
    wrong, kernels = [], set()
    for report in reports:
        for kernel in report["kernels"]:
            if kernel.get("error"):
                wrong.append(f"{kernel['kernel']}: {kernel['error']}")
                fields["failed"] += 1
                continue
            kernels.add(kernel["name"])
            for candidate in kernel["candidates"]:
                failure = candidate.get("failure")
                if failure and failure["kind"] not in ("Timeout", "Memory"):
                    fields["failed"] += 1
                    wrong.append(f"{kernel['kernel']}, {candidate['candidate']}: {failure['stage']}: {failure['message']}")
                elif failure:
                    wrong.append(f"{kernel['kernel']}, {candidate['candidate']}: stopped by its limits")
                else:
                    fields["compiled"] += 1
                    fields["as_text"] += any("text" in note and "function" in note for note in candidate["notes"])
        for kernel, candidate, trial in trials(report):
            fields["runs"] += 1
            verdict = trial["verdict"]
            fields["same_bits"] += verdict == "identical"
            fields["as_original"] += verdict == "as_original"
            fields["within"] += verdict == "within"
            if verdict not in RIGHT:
                fields["failed"] += 1
                reason = (trial.get("reason") or "").splitlines()[:1]
                wrong.append(f"{kernel['kernel']}, launch {trial['launch']}, {candidate['candidate']}: {verdict} {''.join(reason)}")
    fields["kernels"] = len(kernels)
    return fields, wrong


def both(session, archive, log, *options, limit=120):
    """O0, then O3 with random pipelines. Gives (good, fields, note, failing outcomes)."""
    reports, outcomes = [], []
    for pipelines in (["-O0"], ["-O3", *PIPELINES]):
        report, outcome = remix(session, archive, f"{log}{pipelines[0]}", *pipelines, *options, limit=limit)
        outcomes.append(outcome)
        if report:
            reports.append(report)
    fields, wrong = sums(reports)
    fields["s"] = round(sum(outcome.seconds for outcome in outcomes), 1)
    good = len(reports) == 2 and fields["failed"] == 0 and fields["runs"] > 0
    note = "; ".join(wrong[:2]) if wrong else ("" if len(reports) == 2 else outcomes[-1].why())
    return good, fields, note, [] if good else outcomes
