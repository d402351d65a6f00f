# SPDX-License-Identifier: Apache-2.0
"""A user's kernel source: a tar file, a folder or a git tree of Linux, or own files; its identity, and a copy of it."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import translate
from pathlib import Path

from sojourn.hardware.build_tool import call
from sojourn.hardware.kernel_build import own_files
from sojourn.hardware.kernel_build.own_files import OwnFiles
from sojourn.hardware.machine.cache import BuildError
from sojourn.hardware.machine.place import ENVIRONMENT

WANTED = "a linux-*.tar.xz, the top folder of a Linux tree, or a folder with your sch_*.c or tcp_*.c"
UNUSED = ("*.rst", "*.dts", "*.dtsi", *(f"*/{folder}/*.[ch]" for folder in ("drivers/gpu", "drivers/media", "sound")))
"""Files of the source that no recipe compiles: half of its bytes."""
#: Files of a Linux tree from which User-Mode Linux can be built.
_LINUX = ("Makefile", "Kconfig", "arch/um", "arch/x86/um", "net/sched", "net/ipv4")
#: What a build leaves in a folder without git, which would know what to ignore.
_PRODUCTS = (
    "*.o", "*.ko", "*.a", "*.cmd", "*.mod", "*.mod.c", "linux/.config*", "linux/include/config/*",
    "linux/include/generated/*", "linux/arch/*/include/generated/*", "linux/vmlinux", "linux/linux", "*/System.map",
    "*/Module.symvers", "*/modules.order", "*/modules.builtin*",
)  # fmt: skip


@dataclass(frozen=True)
class KernelSource:
    """A source at the time of its identification."""

    path: Path
    name: str
    """For the evidence: `linux-7.3.tar.xz sha256:…`, `linux git:COMMIT changes sha256:…` or `linux files sha256:…`."""
    key: str
    """Identifies the content, wherever it is stored."""
    own: OwnFiles | None = None
    """The files that are built into Sojourn's kernel, if it is no Linux itself."""


def checked(path: Path) -> Path:
    """Return `path` if it can be a source. Raises ValueError with what is wrong and what would be right."""
    if path.is_dir():
        if own_files.has_own_files(path):
            own_files.read(path)
        elif absent := next((name for name in _LINUX if not (path / name).exists()), None):
            raise ValueError(f"{path} has no sch_*.c or tcp_*.c and is not a Linux tree (no {absent}); give {WANTED}")
    elif not path.is_file():
        raise ValueError(f"no such file or folder: {path}; give {WANTED}")
    elif path.suffix in (".c", ".h"):
        raise ValueError(f"{path} is a single file; give {WANTED}, such as {path.parent}")
    return path


def identify(path: Path) -> KernelSource:
    """Return a source's identity: a tar file's hash, a git tree's commit and changes, or the hash of a folder's files.

    Changes are those of a git tree's files against its commit, including files that git neither tracks nor ignores.
    Nothing is written to a tree. Raises BuildError if the source cannot be read or is not a kernel source.
    """
    try:
        if not checked(path).is_dir():
            with path.open("rb") as file:
                sha = hashlib.file_digest(file, "sha256").hexdigest()
            return KernelSource(path, f"{path.name} sha256:{sha}", sha)
        called = path.resolve().name
        if own_files.has_own_files(path):
            own = own_files.read(path)
            return KernelSource(path, f"{called} sha256:{own.digest}", f"own {own.digest}", own)
        if not _is_git(path):
            sha = _digest(path, files(path))
            return KernelSource(path, f"{called} files sha256:{sha}", f"files {sha}")
        if programs := _filters(path):
            raise BuildError(
                f"--kernel-source {path}: its .git/config has {programs}, a program that git would run; remove it, or "
                "give a tar file",
                code="insecure",
            )
        commit = _git(path, "rev-parse", "--verify", "HEAD").strip()
        changed = _listed(path, "diff", "--name-only", "--no-renames", "--no-ext-diff", "-z", "HEAD")
        changed |= _listed(path, "ls-files", "--others", "--exclude-standard", "-z")
        if not changed:
            return KernelSource(path, f"{called} git:{commit}", f"git {commit}")
        sha = _digest(path, sorted(changed))
        return KernelSource(path, f"{called} git:{commit} changes sha256:{sha}", f"git {commit} {sha}")
    except ValueError as wrong:
        raise BuildError(f"--kernel-source: {wrong}", code="invalid-value") from wrong
    except OSError as error:
        raise BuildError(f"--kernel-source {path}: {error.strerror}", code="unreadable-file") from error


def short_name(path: Path) -> str:
    """Return a folder name for what is built from a source; it depends on the tree's content. Raises BuildError."""
    if not path.is_dir():
        return re.sub(r"\.tar(\.\w+)?$", "", path.name)
    return "-".join([path.resolve().name, *(word[:12] for word in identify(path).key.split()[1:])])


def files(tree: Path) -> list[str]:
    """Return a tree's source files by their relative paths, sorted, without those that no recipe compiles."""
    if _is_git(tree):
        names = _listed(tree, "ls-files", "--cached", "--others", "--exclude-standard", "-z")
        return _sources(tree, names, UNUSED)
    names = {
        os.path.relpath(f"{folder}/{name}", tree)
        for folder, folders, plain in os.walk(tree)
        for name in (*plain, *(name for name in folders if os.path.islink(f"{folder}/{name}")))
    }
    return _sources(tree, names, (*UNUSED, *_PRODUCTS))


def pack(source: KernelSource, archive: Path) -> None:
    """Pack the files of a tree into a tar file, below `linux/`. Raises BuildError, also if they change meanwhile."""
    names = archive.with_suffix(".names")
    names.write_bytes(b"".join(os.fsencode(name) + b"\0" for name in files(source.path)))
    below = "--transform=flags=r;s,^,linux/,"
    command = ["tar", "-C", str(source.path), "--no-recursion", "--hard-dereference", below, "--null", "-T", str(names)]
    call([*command, "-cf", str(archive)])
    names.unlink()
    if identify(source.path) != source:
        raise BuildError(f"--kernel-source {source.path}: changed while it was copied; start again", code="altered")


def was_built_in(tree: Path) -> bool:
    """Return whether a build has left generated sources in a folder without git."""
    return not _is_git(tree) and ((tree / ".config").exists() or (tree / "include" / "config").exists())


def _is_git(tree: Path) -> bool:
    return (tree / ".git").exists()


def _sources(tree: Path, names: Iterable[str], without: Iterable[str]) -> list[str]:
    patterns = re.compile("|".join(map(translate, without)))
    kept = (name for name in names if not patterns.fullmatch(f"linux/{name}"))
    return sorted(name for name in kept if os.path.islink(tree / name) or os.path.isfile(tree / name))


def _digest(tree: Path, names: Iterable[str]) -> str:
    """Hash files by name, kind and content; a deleted file counts too."""
    total = hashlib.sha256()
    for name in names:
        path = tree / name
        if path.is_symlink():
            kind, content = "link", hashlib.sha256(os.fsencode(path.readlink())).hexdigest()
        elif path.is_file():
            kind = "program" if os.stat(path).st_mode & 0o100 else "file"
            with path.open("rb") as file:
                content = hashlib.file_digest(file, "sha256").hexdigest()
        else:
            kind, content = "gone", ""
        total.update(os.fsencode(name) + f"\0{kind} {content}\n".encode())
    return total.hexdigest()


def _listed(tree: Path, *words: str) -> set[str]:
    return set(_git(tree, *words).split("\0")) - {""}


def _filters(tree: Path) -> str:
    """Return the first filter of a tree's own git configuration; git runs filters even to list changes."""
    command = ["git", "-C", str(tree), "config", "--local", "--includes", "--name-only", "--get-regexp", r"^filter\."]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=ENVIRONMENT)
    return done.stdout.partition("\n")[0]


def _git(tree: Path, *words: str) -> str:
    """Run git in a tree without the locks that it takes to update its index."""
    command = ["git", "-C", str(tree), "-c", "core.fsmonitor=false", *words]
    try:
        done = subprocess.run(
            command, capture_output=True, check=False, env={**ENVIRONMENT, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
        )
    except FileNotFoundError as missing:
        raise BuildError(
            f"--kernel-source {tree}: is a git tree and git is missing; give a tar file", code="missing-program"
        ) from missing
    if done.returncode:
        said = (done.stderr.decode(errors="replace").strip().splitlines() or ["no answer"])[0]
        raise BuildError(f"--kernel-source {tree}: git {words[0]}: {said}", code="unreadable-file")
    return os.fsdecode(done.stdout)
