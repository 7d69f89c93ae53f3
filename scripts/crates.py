#!/usr/bin/env python3
"""What this workspace links, read from `cargo metadata`.

    scripts/crates.py direct                       crates that this workspace names as dependencies
    scripts/crates.py linked PACKAGE…              crates that are linked into these packages
    scripts/crates.py licenses PACKAGE… [--with "LLVM libunwind=FILE"]
                                                   the licences of all that, for a package

Linked are the normal dependencies for x86-64 Linux; build scripts and procedural macros are not.
Licences are the files that the crates carry, those of Rust's standard library, and those given by
--with. A crate without a text, whose licence is not one whose text is known here, is an error.
"""

import argparse
import json
import os
import re
import subprocess
import sys

LICENCE_FILE = re.compile(r"^(licen[cs]e|copying|copyright|notice|unlicense)([-._].*)?$", re.IGNORECASE)
RUST_LICENCES = ("MIT", "Apache-2.0", "LLVM-exception", "BSD-2-Clause", "NCSA", "Unicode-3.0")
SKIPPED_FOLDERS = {"tests", "test", "benches", "examples", "target", ".git", "src"}


def metadata():
    command = ["cargo", "metadata", "--format-version=1", "--locked", "--filter-platform=x86_64-unknown-linux-gnu"]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def linked(meta, names):
    """The ids of all packages that are linked into the packages called `names`."""
    packages = {package["id"]: package for package in meta["packages"]}
    nodes = {node["id"]: node for node in meta["resolve"]["nodes"]}
    todo = [package["id"] for package in meta["packages"] if package["name"] in names and package["source"] is None]
    if len(todo) != len(names):
        sys.exit(f"error: not all of {names} are packages of this workspace")
    seen = set()
    while todo:
        package = todo.pop()
        if package in seen:
            continue
        seen.add(package)
        for dependency in nodes[package]["deps"]:
            normal = any(kind["kind"] is None for kind in dependency["dep_kinds"])
            macro = any("proc-macro" in target["kind"] for target in packages[dependency["pkg"]]["targets"])
            if normal and not macro:
                todo.append(dependency["pkg"])
    return [packages[package] for package in seen if packages[package]["name"] not in names]


def direct(meta):
    """The names of all crates that packages of this workspace depend on, tests included."""
    members = set(meta["workspace_members"])
    own = {package["name"] for package in meta["packages"] if package["id"] in members}
    named = {d["name"] for package in meta["packages"] if package["id"] in members for d in package["dependencies"]}
    return sorted(named - own)


def licence_files(folder):
    """Licence files of a crate and of the C sources that it carries."""
    found = []
    for here, folders, files in os.walk(folder):
        depth = os.path.relpath(here, folder).count(os.sep)
        folders[:] = sorted(f for f in folders if f not in SKIPPED_FOLDERS and depth < 1)
        found += [os.path.join(here, file) for file in sorted(files) if LICENCE_FILE.match(file)]
    return found


def read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read().strip("\n")


def licenses(crates, extra):
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
    own = {"MIT": read(os.path.join(root, "LICENSE-MIT")), "Apache-2.0": read(os.path.join(root, "LICENSE-APACHE"))}
    own_mit_terms = own["MIT"].split("\n\n", 2)[2]

    texts = {}  # text -> the crates that carry it: the same Apache licence comes a hundred times
    rows, problems = [], []
    for package in crates:
        title = f"{package['name']} {package['version']}"
        licence = package["license"] or "see its licence file"
        rows.append(f"  {title:<32} {licence}")
        folder = os.path.dirname(package["manifest_path"])
        files = licence_files(folder)
        for file in files:
            texts.setdefault(read(file), []).append(f"{title}, {os.path.relpath(file, folder)}")
        if files:
            continue
        accepted = re.split(r"\s+OR\s+|/", licence.strip("()"))
        authors = ", ".join(package["authors"]) or f"the authors of {package['name']}"
        if "MIT" in accepted:
            text = f"MIT License\n\nCopyright (c) {authors}\n\n{own_mit_terms}"
        elif "Apache-2.0" in accepted:
            text = own["Apache-2.0"]
        else:
            problems.append(f"{title}: licence {licence}, and the crate carries no text of it")
            continue
        texts.setdefault(text, []).append(f"{title} (the crate carries no licence file)")
    if problems:
        sys.exit("error: " + "\nerror: ".join(problems))

    sysroot = subprocess.run(["rustc", "--print", "sysroot"], check=True, stdout=subprocess.PIPE, text=True)
    rust = os.path.join(sysroot.stdout.strip(), "share", "doc", "rust", "licenses")
    for licence in RUST_LICENCES:
        text = read(os.path.join(rust, f"{licence}.txt"))
        texts.setdefault(text, []).append(f"Rust standard library, {licence}.txt")
    rows.append(f"  {'Rust standard library':<32} MIT OR Apache-2.0, parts under the other licences below")
    for item in extra:
        name, file = item.split("=", 1)
        rows.append(f"  {name:<32} {os.path.basename(file)}")
        texts.setdefault(read(file), []).append(f"{name}, {os.path.basename(file)}")

    print("R3 contains the following third-party software.\n")
    print("\n".join(rows))
    for text in sorted(texts, key=lambda text: texts[text][0]):
        print("\n" + "=" * 100)
        print("\n".join(texts[text]))
        print("=" * 100 + "\n")
        print(text)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("what", choices=["direct", "linked", "licenses"])
    arguments.add_argument("packages", nargs="*")
    arguments.add_argument("--with", dest="extra", action="append", default=[], metavar="NAME=FILE")
    arguments = arguments.parse_args()
    meta = metadata()
    if arguments.what == "direct":
        print("\n".join(direct(meta)))
        return
    if not arguments.packages:
        sys.exit("error: name the packages")
    crates = sorted(linked(meta, arguments.packages), key=lambda crate: (crate["name"], crate["version"]))
    if arguments.what == "linked":
        print("\n".join(crate["name"] for crate in crates))
    else:
        licenses([crate for crate in crates if crate["source"] is not None], arguments.extra)


main()
