"""Where things are, and how commands are run: time limits, logs, memory peaks, a clean environment."""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import threading
import time
import tomllib
from dataclasses import dataclass

ROOT = pathlib.Path(__file__).resolve().parents[3]
SAMPLES = ROOT / "capture-samples"
SOURCES = ROOT / "scripts" / "gpu" / "src"


class Unavailable(Exception):
    """A stage cannot run at all: says what is missing."""


@dataclass
class Outcome:
    """How a command ended."""

    command: list
    code: int  # negative: ended by that signal
    stdout: bytes
    stderr: bytes
    seconds: float
    timed_out: bool
    peaks: dict  # peak kB by kind, when asked for

    @property
    def ok(self):
        return self.code == 0 and not self.timed_out

    def why(self):
        """One line on a failure."""
        if self.timed_out:
            return f"stopped after {self.seconds:.0f} s"
        if self.code < 0:
            return f"ended by {signal.Signals(-self.code).name}"
        lines = (self.stderr or self.stdout).decode(errors="replace").strip().splitlines()
        return f"exit code {self.code}" + (f": {lines[-1][:150]}" if lines else "")


def memory_kinds(pid):
    """Resident memory of a process by kind, in kB."""
    try:
        text = pathlib.Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return {}
    return {key: int(value) for key, value in re.findall(r"^(Rss\w+|VmHWM):\s+(\d+) kB", text, re.M)}


class Session:
    """One run of the stages."""

    def __init__(self, out, work, deadline):
        self.out = pathlib.Path(out).resolve()
        self.work = pathlib.Path(work).resolve()
        self.logs = self.out / "logs"
        self.deadline = time.monotonic() + deadline
        self.ends = self.deadline
        for folder in (self.out, self.work, self.logs):
            folder.mkdir(parents=True, exist_ok=True)
        self.samples = sample_table()
        self._lock = threading.Lock()
        self._serial = 0

    def allow(self, seconds):
        """Commands from here on have this long in all, within the deadline of the whole run."""
        self.ends = min(self.deadline, time.monotonic() + seconds)

    # Where R3 is: R3_HOME, a package beside this script, dist/ of this checkout.
    def home(self):
        if "R3_HOME" in os.environ:
            places = [pathlib.Path(os.environ["R3_HOME"])]
        else:
            here = ROOT / "scripts" / "gpu"
            places = [here, *sorted(here.glob("r3-*-x86_64-linux")),
                      *sorted((ROOT / "dist").glob("r3-*-x86_64-linux"))]
        for place in reversed(places):
            if (place / "lib" / "libr3.so").is_file() and (place / "bin" / "r3-replay").is_file():
                return place.resolve()
        raise Unavailable("no R3 found: set R3_HOME to the unpacked package (it has lib/libr3.so and bin/r3-replay); "
                          f"looked in {', '.join(map(str, places))}")

    @property
    def library(self):
        return self.home() / "lib" / "libr3.so"

    @property
    def replay(self):
        return self.home() / "bin" / "r3-replay"

    @staticmethod
    def nvcc():
        found = os.environ.get("NVCC") or shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
        if shutil.which(found) is None:
            raise Unavailable("no nvcc: put it on the PATH or set NVCC")
        return shutil.which(found)

    def folder(self, *parts):
        """An empty folder under the work folder."""
        path = self.work.joinpath(*parts)
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
        return path

    @staticmethod
    def environment(**extra):
        """This environment without LD_PRELOAD and without any R3_* variable, plus `extra`."""
        kept = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD" and not k.startswith("R3_")}
        kept.update({key: str(value) for key, value in extra.items()})
        return kept

    def shim(self, folder, **options):
        """The environment in which a program is recorded into `folder`."""
        return self.environment(LD_PRELOAD=self.library, R3_OUT=folder / "%e.%p.r3", **options)

    def run(self, command, *, limit=60, cwd=None, env=None, stdin=None, log=None, peaks=False):
        """Runs a command in its own process group; its output goes to a log as well."""
        command = [str(part) for part in command]
        left = self.ends - time.monotonic()
        if left < 1:
            return Outcome(command, 124, b"", b"no time left for this command", 0.0, True, {})
        start = time.monotonic()
        try:
            process = subprocess.Popen(
                command, cwd=cwd or self.work, env=self.environment() if env is None else env, stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
        except OSError as error:
            return Outcome(command, 127, b"", str(error).encode(), 0.0, False, {})
        highest, done = {}, threading.Event()

        def watch():
            while not done.wait(0.01):
                for key, value in memory_kinds(process.pid).items():
                    highest[key] = max(highest.get(key, 0), value)

        watcher = threading.Thread(target=watch, daemon=True)
        if peaks:
            watcher.start()
        timed_out = False
        try:
            stdout, stderr = process.communicate(stdin, timeout=min(limit, left))
        except subprocess.TimeoutExpired:
            timed_out = True
            os.killpg(process.pid, signal.SIGKILL)
            stdout, stderr = process.communicate()
        done.set()
        if peaks:
            watcher.join()
        outcome = Outcome(command, process.returncode, stdout, stderr, time.monotonic() - start, timed_out, highest)
        self.log(log or pathlib.Path(command[0]).name, outcome, env)
        return outcome

    def log(self, name, outcome, env=None):
        with self._lock:
            self._serial += 1
            path = self.logs / f"{self._serial:04d}-{re.sub(r'[^A-Za-z0-9_.-]+', '-', name)}.log"
        shown = {k: v for k, v in (env or {}).items() if k == "LD_PRELOAD" or k.startswith(("R3_", "CUDA_", "XLA_"))}
        head = f"$ {' '.join(f'{k}={v}' for k, v in shown.items())} {' '.join(outcome.command)}\n" \
               f"# exit {outcome.code}, {outcome.seconds:.2f} s{', timed out' if outcome.timed_out else ''}\n"
        with path.open("wb") as file:
            file.write(head.encode())
            file.write(b"--- stdout\n" + outcome.stdout[:1 << 20])
            file.write(b"--- stderr\n" + outcome.stderr[:1 << 20])

    def build(self, folder, what):
        """Runs make in `folder`; gives the folder of the programs and the outcome (programs that failed are absent)."""
        built = self.work / "build" / what
        made = self.run(["make", "-k", f"-j{os.cpu_count() or 4}", "-C", folder, f"NVCC={self.nvcc()}", f"BUILD={built}"],
                        limit=240, log=f"build-{what}")
        return built, made


def sample_table():
    """The sample programs by name."""
    return tomllib.loads((SAMPLES / "samples.toml").read_text())


def archives(folder):
    """The archives in a folder, oldest first."""
    return sorted(pathlib.Path(folder).glob("*.r3"), key=lambda path: path.stat().st_mtime)


def tool(session, name):
    """A program of `scripts/package.sh --tests`: beside R3's programs, in dist/, or where cargo builds it."""
    release = ROOT / "target" / "release"
    for place in (session.home() / "bin", session.home(), session.home().parent, ROOT / "dist", release):
        found = shutil.which(name, path=os.fspath(place))
        if found:
            return found
    raise Unavailable(f"no {name} beside {session.home()} or in {ROOT / 'dist'}: scripts/package.sh --tests builds it")
