"""Stage tune-levers: kernels for which it is known what helps; the search against random search and a full sweep."""

import json
import statistics

from .evaluating import KERNELS, compiled, evaluate, recorded

STAGE = "tune-levers"
EVALUATIONS = 60
SEEDS = (1, 2, 3)
# Largest ratio that shows that the known lever was found.
FOUND = {"bilateral": 0.9, "lombscargle": 0.9, "maxpool": 0.9, "attention": 0.97, "heat2d": 0.9, "convolution": 0.8}
# Less time for measuring the best ones at length than a user would give.
SHORT = ("--set", "top=5", "--set", "final_warmup=10", "--set", "ablation=no")
SHORTER = ("--set", "top=2", "--set", "final_warmup=10", "--set", "ablation=no")
BLOCKS = (32, 64, 128, 256, 512, 1024)
CAPS = (None, 24, 32, 40, 48, 64, 96, 128, 255)


def tune(session, archive, kernel, *options, log, limit=120):
    """Runs `r3-evolve tune`. Gives what it says, or None, and the outcome."""
    evolve = session.replay.with_name("r3-evolve")
    folder = session.folder("runs", log)
    outcome = session.run([evolve, "tune", archive, "--kernel", kernel, "--run", folder / "run", "--device", "cuda", "--json", *options],
                          limit=limit, log=log)
    text = outcome.stdout.decode(errors="replace")
    try:
        return json.JSONDecoder().raw_decode(text, max(text.find("{"), 0))[0], outcome
    except ValueError:
        return None, outcome


def best(said):
    """The best ratio that a search claims, 1 when it claims none."""
    return said["best"]["ratio"]["median"] if said and said["claim"] else 1.0


def sweep(session, archive, kernel, log):
    """The best of nvcc's own code over block sizes and register caps."""
    shapes = [[block, 1, 1] for block in BLOCKS]
    if kernel in ("bilateral", "maxpool"):
        shapes = [[x, y, 1] for x in (8, 16, 32, 64, 128) for y in (1, 2, 4, 8, 16) if 32 <= x * y <= 1024]
    candidates = []
    for shape in shapes:
        for cap in CAPS:
            line = compiled(f"{'x'.join(map(str, shape))}, {cap or 'no'} cap", block=shape,
                            bounds={"maxnreg": cap, "maxntid": None, "minnctapersm": None})
            line["plan"] = {"least_pairs": 8, "most_pairs": 16}
            candidates.append(line)
    lines, summary, _ = evaluate(session, archive, kernel, candidates, log=log)
    right = [(line["outcome"]["score"]["ratio"]["median"], line["label"]) for line in lines
             if line["outcome"]["verdict"] == "right" and line["outcome"]["score"]]
    return (*min(right, default=(1.0, "none")), len(lines), summary)


def run(session, report):
    session.home()
    for name, archive in recorded(session, report, STAGE, list(KERNELS)):
        kernel, lever = KERNELS[name]
        said, outcome = tune(session, archive, kernel, "--evaluations", EVALUATIONS, "--seed", "1", *SHORT, log=f"tune-{name}")
        if not said:
            report.add(STAGE, name, False, outcome.why())
            report.details(outcome)
            continue
        of_random = []
        for seed in SEEDS:
            drawn, _ = tune(session, archive, kernel, "--strategy", "random", "--evaluations", EVALUATIONS, "--seed", seed, *SHORTER, log=f"random-{name}-{seed}")
            of_random.append(best(drawn))
        swept, at, tried, _ = sweep(session, archive, kernel, f"sweep-{name}")
        found = said["best"]["ratio"]
        good = said["claim"] and found["median"] <= FOUND[name]
        report.add(STAGE, name, good, f"known: {lever}; won by: {', '.join(said['best']['knobs'])}"[:200], ratio=best(said), low=found["low"], high=found["high"],
                   at=said["best"]["found_at"], s=round(outcome.seconds, 1), random=statistics.median(of_random), random_best=min(of_random),
                   sweep=swept, sweep_of=tried, sweep_at=at, us=round(said["original_ns"] / 1e3, 1))
    report.table(STAGE)
