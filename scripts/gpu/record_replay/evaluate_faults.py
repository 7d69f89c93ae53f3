"""Stage evaluate-faults: 1000 candidates, a tenth of which crash, hang, corrupt memory or do not compile."""

from collections import Counter

from .evaluating import evaluate
from .session import SAMPLES

STAGE = "evaluate-faults"
COUNT = 1000
GROWTH = 0.01

PTX = """.version 6.5
.target sm_75
.address_size 64
.visible .entry {kernel}(.param .u64 p0, .param .u64 p1, .param .f32 p2, .param .u32 p3)
{{
    .reg .pred %p<4>; .reg .f32 %f<8>; .reg .b32 %r<8>; .reg .b64 %rd<12>;
    ld.param.u64 %rd1, [p0]; ld.param.u64 %rd2, [p1]; ld.param.f32 %f1, [p2]; ld.param.u32 %r1, [p3];
    cvta.to.global.u64 %rd3, %rd1; cvta.to.global.u64 %rd4, %rd2;
    mov.u32 %r2, %ntid.x; mov.u32 %r3, %ctaid.x; mov.u32 %r4, %tid.x; mad.lo.s32 %r5, %r3, %r2, %r4;
    setp.ge.s32 %p1, %r5, %r1; @%p1 bra DONE;
    mul.wide.s32 %rd5, %r5, 4; add.s64 %rd6, %rd3, %rd5; add.s64 %rd7, %rd4, %rd5;
    ld.global.f32 %f2, [%rd6]; ld.global.f32 %f3, [%rd7]; fma.rn.f32 %f4, %f1, %f2, %f3;
    {extra}
    st.global.f32 [%rd7], %f4;
DONE:
    ret;
}}
"""
# What is added, and the verdicts that are right. Numbers make each one different machine code.
KINDS = {
    "right": ("setp.eq.s32 %p2, %r5, -{n}; @%p2 bra DONE;", ["right"]),
    "traps": ("setp.eq.s32 %p2, %r5, {n}; @%p2 trap;", ["fault"]),
    "hangs": ("LOOP: ld.volatile.global.f32 %f5, [%rd6]; mov.u32 %r6, {n}; setp.ne.u32 %p2, %r6, 0; @%p2 bra LOOP;", ["timeout"]),
    "illegal": ("mov.u64 %rd8, {n}; shl.b64 %rd8, %rd8, 40; add.s64 %rd9, %rd7, %rd8; st.global.f32 [%rd9], %f4;", ["fault"]),
    "corrupts": ("st.global.f32 [%rd7+262144], %f4; setp.eq.s32 %p2, %r5, -{n}; @%p2 bra DONE;", ["cheat", "wrong", "fault"]),
    "wrong": ("add.f32 %f4, %f4, 0f3d{n:06x};", ["wrong"]),
    "no code": ("this.is.not.ptx %r{n};", ["no_code"]),
}
# Out of every hundred.
SHARES = {"traps": 2, "hangs": 1, "illegal": 1, "corrupts": 2, "wrong": 2, "no code": 2}


# They do without a variable that the original reads, and forge addresses: results are what is tried here.
ANY = {"allowed": {"rules": ["inputs", "addresses", "variables"]}}


def written(kind, number):
    """A candidate for the self-test's `scale_add`, as PTX."""
    return PTX.format(kernel="scale_add", extra=KINDS[kind][0].format(n=number))


def candidates():
    """(kind, line): the bad ones spread among the right ones."""
    made = []
    turn = [kind for kind, share in SHARES.items() for _ in range(share)]
    for number in range(COUNT):
        at = number % 100
        kind = turn[at // 10] if at % 10 == 7 else "right"
        made.append((kind, {"candidate": {"code": {"ptx": written(kind, number + 1)}}, "label": f"{number} {kind}", "plan": ANY}))
    return made


def run(session, report):
    session.home()
    archive = session.folder(STAGE) / "selftest.r3"
    written = session.run([session.replay, "selftest", "--write-archive", archive], limit=30, log="faults-archive")
    if not archive.exists():
        report.add(STAGE, "archive", False, written.why())
        report.table(STAGE)
        return
    made = candidates()
    lines, summary, outcome = evaluate(session, archive, "scale_add", [line for _, line in made], "--launch-limit", "1", log="faults", limit=300)
    kinds = dict((line["label"], kind) for kind, line in made)
    seen, wrong = Counter(), []
    for line in lines:
        kind = kinds[line["label"]]
        seen[kind] += 1
        if line["outcome"]["verdict"] not in KINDS[kind][1]:
            wrong.append((kind, line["label"], line["outcome"]["verdict"], line["outcome"].get("reason")))
    bad = Counter(kind for kind, *_ in wrong)
    for kind in KINDS:
        first = next((f"{label}: {verdict} {reason or ''}" for of, label, verdict, reason in wrong if of == kind), "")
        expected = sum(1 for of, _ in made if of == kind)
        report.add(STAGE, kind, bad[kind] == 0 and seen[kind] == expected, first, candidates=expected, judged=seen[kind], other_verdict=bad[kind])
    if summary:
        report.add(STAGE, "all", len(lines) == COUNT and not wrong, candidates=len(lines), per_second=summary["per_second"], restarts=summary["status"]["restarts"])
        early, late = summary["memory"]["early"], summary["memory"]["late"]
        for where in ("worker", "device"):
            if early[where]:
                growth = late[where] / early[where] - 1
                report.add(STAGE, f"memory: {where}", growth <= GROWTH, f"after a tenth, at the end; limit {GROWTH:.0%}",
                           early_mib=round(early[where] / 2**20, 1), late_mib=round(late[where] / 2**20, 1), growth=f"{growth:.2%}")
    else:
        report.add(STAGE, "all", False, outcome.why())
    if wrong or not summary:
        report.details(outcome)
    report.table(STAGE)
