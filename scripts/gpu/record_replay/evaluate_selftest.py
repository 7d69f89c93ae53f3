"""Stage evaluate-selftest: planted exploits are caught, harmless rewrites pass."""

import json

STAGE = "evaluate-selftest"


def run(session, report):
    session.home()
    outcome = session.run([session.replay, "selftest", "--device", "cuda", "--json"], limit=200, log="selftest")
    text = outcome.stdout.decode(errors="replace")
    try:
        said = json.JSONDecoder().raw_decode(text, max(text.find("{"), 0))[0]
    except ValueError:
        report.add(STAGE, "selftest", False, outcome.why())
        report.details(outcome)
        report.table(STAGE)
        return
    for kind, good in (("exploits", "caught"), ("harmless", "passed")):
        found = said[kind]
        report.add(STAGE, f"{kind} {good}", found[good] == found["count"], count=found["count"], right=found[good], s=round(outcome.seconds, 1))
    for case in said["cases"]:
        if not case["ok"]:
            report.add(STAGE, case["name"], False, f"{case['verdict']}: {case.get('reason') or case['what']}")
    if not outcome.ok:
        report.details(outcome)
    report.table(STAGE)
