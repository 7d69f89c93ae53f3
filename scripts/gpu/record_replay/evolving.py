"""What the stages of evolve.sh share: programs recorded here with their sources, searches over source, what they say."""

import json

from .session import SAMPLES, SOURCES, archives

# Name: folder of its program, arguments (sizes that keep a GPU busy), kernel, what its results are allowed.
SUBJECTS = {
    "wilson": ("programs", [24, 3], "dslash", 'type = "f32"\nrelative = 1e-5\nabsolute = 1e-5\n'),
    "nbody": ("programs", [16384, 4], "step", 'type = "f32"\nrelative = 1e-4\nabsolute = 1e-6\n'),
    "heat2d": ("tune", [4000, 4000, 4], "heat", 'type = "f64"\nrelative = 1e-12\nabsolute = 1e-14\n'),
    "reduction": ("programs", [50_000_000], "block_sums", 'type = "f32"\nrelative = 1e-5\n'),
}
FOLDERS = {"programs": SAMPLES / "programs", "tune": SOURCES / "tune"}


def subject(session, report, stage, name):
    """Records a program here. Gives archive, kernel, source, and the options of its compiler; None when it cannot be."""
    kind, arguments, kernel, tolerance = SUBJECTS[name]
    folder = session.folder(stage, name)
    program = folder / name
    source = FOLDERS[kind] / f"{name}.cu"
    includes = ["-I", str(SAMPLES / "programs")]
    made = session.run([session.nvcc(), "-O3", "-std=c++17", "-arch=sm_90", *includes, "-o", program, source], limit=90, log=f"build-{name}")
    outcome = session.run([program, *arguments], cwd=folder, limit=90, log=f"{stage}-{name}",
                          env=session.shim(folder, R3_LAUNCHES="1,2,3", R3_KERNEL=kernel)) if made.ok else made
    found = archives(folder)
    if not (outcome.ok and found):
        report.add(stage, name, False, f"not recorded: {outcome.why()}")
        report.details(outcome)
        return None
    (folder / "tolerance.toml").write_text(f"version = 1\n\n[[buffer]]\n{tolerance}")
    return found[0], kernel, source, ["-O3", "-std=c++17", *includes], folder / "tolerance.toml"


def searched(session, command, archive, kernel, *options, log, limit, gpu=0):
    """Runs a search of r3-evolve. Gives what it says, or None, the outcome, and the run's folder."""
    evolve = session.replay.with_name("r3-evolve")
    folder = session.folder("runs", log) / "run"
    outcome = session.run([evolve, command, archive, "--kernel", kernel, "--run", folder, "--device", "cuda", "--gpu", gpu, "--json", *options],
                          limit=limit, log=log)
    return said(outcome), outcome, folder


def said(outcome):
    """The JSON that a command printed. Kernels that print do so on standard output, too."""
    text = outcome.stdout.decode(errors="replace")
    try:
        return json.JSONDecoder().raw_decode(text, max(text.find("{"), 0))[0]
    except ValueError:
        return None


def reported(session, folder, log):
    """What `report` says of a run, as data."""
    outcome = session.run([session.replay.with_name("r3-evolve"), "report", folder, "--json"], limit=60, log=f"report-{log}")
    return said(outcome) or {}
