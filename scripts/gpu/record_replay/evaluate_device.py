"""Stage evaluate-device: each operation of the engine on the GPU against the same on the host."""

import json

STAGE = "evaluate-device"


def run(session, report):
    session.home()
    outcome = session.run([session.replay, "device-check", "--json"], limit=120, log="device-check")
    try:
        said = json.loads(outcome.stdout)
    except ValueError:
        report.add(STAGE, "device-check", False, outcome.why())
        report.details(outcome)
        report.table(STAGE)
        return
    for operation in said["operations"]:
        fields = {"GB/s": round(operation["gigabytes_per_second"], 1)} if operation.get("gigabytes_per_second") else {}
        report.add(STAGE, operation["name"], operation["ok"], operation.get("note") or "", **fields)
    report.add(STAGE, "all", outcome.ok, "" if outcome.ok else outcome.why())
    report.table(STAGE)
