"""Stage differential: small PTX kernels on this GPU and on the CPU device, from the same inputs."""

import json

from .session import tool

RANDOM = 600  # random programs besides the tables


def run(session, report):
    program = tool(session, "r3-ptx-differential")
    recorded = session.out / "differential.zst"
    made = session.run([program, "record", "--device", "cuda", "--whole", "--random", RANDOM, "--out", recorded],
                       limit=200, log="differential-record")
    lines = made.stdout.decode(errors="replace").strip().splitlines()
    report.add("differential", "on the GPU", made.ok, lines[-1] if lines else made.why(), s=round(made.seconds, 1))
    if not recorded.exists():
        report.details(made)
        return
    compared = session.run([program, "compare", recorded, "--device", "cpu", "--random", RANDOM, "--json"], limit=200,
                           log="differential-compare")
    families = [json.loads(line) for line in compared.stdout.splitlines() if line.startswith(b"{")]
    for family in families:
        worst = f"{family['worst_error']}, {family['worst_of_allowed']:.0%} of what is allowed ({family['worst'].split('/')[-1]})"
        report.add("differential", family["family"], family["failed"] == 0, cases=family["cases"],
                   same_bits=family["same_bits"], within_bound=family["within_bound"], known=family["known"], failed=family["failed"],
                   worst=worst if family["worst"] else "")
    report.add("differential", "all", compared.ok and bool(families), cases=sum(f["cases"] for f in families),
               same_bits=sum(f["same_bits"] for f in families), within_bound=sum(f["within_bound"] for f in families),
               known=sum(f["known"] for f in families), failed=sum(f["failed"] for f in families), s=round(compared.seconds, 1))
    if not compared.ok:
        report.details(compared)
    report.table("differential")
