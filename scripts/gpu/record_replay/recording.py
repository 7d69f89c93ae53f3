"""Run a program bare and recorded, then check its archive in a fresh process from an empty folder."""

import json
import shutil

from .session import archives

KEPT = 12_000_000  # bytes of archives kept of failures


def number_of_launches(session, archive, log):
    """Launches in an archive, and the outcome of `r3-replay ls`."""
    listed = session.run([session.replay, "ls", archive, "--json"], log=f"{log}-ls")
    try:
        data = json.loads(listed.stdout)
    except ValueError:
        return None, listed
    if isinstance(data, dict):
        data = next((value for value in data.values() if isinstance(value, list)), [])
    return len(data), listed


def verify(session, archive, log, noise, limit=90):
    """Verifies `archive` alone in an empty folder. Gives (ok, how, failing outcomes).

    `noise` allows a second try with tolerances measured by `r3-replay noise`; `how` says which it was.
    """
    folder = session.folder("verify", log)
    copy = folder / archive.name
    shutil.copyfile(archive, copy)
    exact = session.run([session.replay, "verify", copy], cwd=folder, limit=limit, log=f"{log}-verify")
    if exact.ok:
        return True, "exact", []
    if not noise or exact.code != 1:
        return False, "failed", [exact]
    tolerances = folder / "tolerances.toml"
    measured = session.run([session.replay, "noise", copy, "--out", tolerances], cwd=folder, limit=limit,
                           log=f"{log}-noise")
    if not measured.ok:
        return False, "failed", [exact, measured]
    again = session.run([session.replay, "verify", copy, "--tolerance-file", tolerances], cwd=folder, limit=limit,
                        log=f"{log}-verify-noise")
    return again.ok, "within noise" if again.ok else "failed", [] if again.ok else [exact, measured, again]


def keep(session, archive):
    """Keeps the archive of a failure for a look at it elsewhere, while there is room."""
    folder = session.out / "failed-archives"
    used = sum(path.stat().st_size for path in folder.glob("*")) if folder.exists() else 0
    if used + archive.stat().st_size <= KEPT:
        folder.mkdir(exist_ok=True)
        shutil.copyfile(archive, folder / archive.name)


def compare(session, name, command, *, folder, limit=60, noise=False, launches=None, env=None):
    """The whole way of one program. Gives (ok, fields, note, failing outcomes, archive).

    What failed while recording is recorded once more with R3_LOG=debug, for the logs.
    """
    result = attempt(session, name, command, folder, limit, noise, launches, env or {})
    ok, fields, _, failing, archive = result
    if not ok and archive is not None:
        keep(session, archive)
    if not ok and fields["verify"] in ("-", "exact") and fields["shim_s"] != "-":
        again = session.folder(folder, name, "debug")
        failing.append(session.run(command, cwd=again, limit=limit, env=session.shim(again, R3_LOG="debug", **(env or {})),
                                   log=f"{name}-shim-debug"))
    return result


def attempt(session, name, command, folder, limit, noise, launches, extra):
    """One attempt of `compare`."""
    fields = {"output": "-", "exit": "-", "launches": "-", "KB": "-", "verify": "-", "bare_s": "-", "shim_s": "-"}
    bare_folder, shim_folder = session.folder(folder, name, "bare"), session.folder(folder, name, "shim")
    bare = session.run(command, cwd=bare_folder, limit=limit, env=session.environment(**extra), log=f"{name}-bare")
    fields["bare_s"] = round(bare.seconds, 2)
    if not bare.ok:
        return False, fields, f"fails without R3: {bare.why()}", [bare], None
    shim = session.run(command, cwd=shim_folder, limit=2 * limit, env=session.shim(shim_folder, **extra),
                       log=f"{name}-shim")
    fields.update(shim_s=round(shim.seconds, 2), exit=shim.code, output="same" if shim.stdout == bare.stdout else "DIFFERS")
    notes, failing = [], []
    if shim.code != bare.code or shim.stdout != bare.stdout or shim.timed_out:
        notes.append("differs under R3: " + (shim.why() if not shim.ok else "other output"))
        failing += [bare, shim]
    messages = [line for line in shim.stderr.decode(errors="replace").splitlines()
                if line not in bare.stderr.decode(errors="replace").splitlines()]
    if messages:
        notes.append(f"says: {messages[0][:120]}" + (f" (+{len(messages) - 1} lines)" if len(messages) > 1 else ""))
    found = archives(shim_folder)
    if len(found) != 1:
        notes.append(f"{len(found)} archives")
        return False, fields, "; ".join(notes), failing or [shim], None
    archive = found[0]
    fields["KB"] = round(archive.stat().st_size / 1000, 1)
    count, listed = number_of_launches(session, archive, name)
    fields["launches"] = "?" if count is None else count
    if not listed.ok:
        notes.append("r3-replay ls failed")
        failing.append(listed)
    elif launches is not None and count != launches:
        notes.append(f"expected {launches} launches")
        failing.append(listed)
    elif count == 0:
        notes.append("nothing recorded")
        failing.append(shim)
    verified, fields["verify"], more = verify(session, archive, name, noise, limit=2 * limit)
    if not verified:
        notes.append(f"verify: {more[-1].why()}")
        failing += more
    return not failing, fields, "; ".join(notes), failing, archive
