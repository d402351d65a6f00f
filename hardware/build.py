# SPDX-License-Identifier: Apache-2.0
"""The kernel of the virtual nodes: mainline Linux as a User-Mode Linux binary, built once and cached."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hardware import kconfig, patches
from hardware.archive import Archive
from hardware.guest import ensure_guest
from hardware.self_check import self_check
from harness import cache
from harness.cache import BuildError, Progress

PRAGUE = kconfig.FRAGMENTS / "tcp_prague.c"
TOOLS = ("gcc", "make", "bc", "bison", "flex", "xz", "tar")
APT_LINE = "apt-get install --no-install-recommends bc bison flex gcc libc6-dev make xz-utils"
OBJECTS = 1500
"""About how many files the build compiles; only the progress display depends on it."""


@dataclass(frozen=True)
class Kernel:
    """A built kernel."""

    linux: Path
    """The User-Mode Linux executable."""
    config: Path
    """The full .config that it was built with."""
    version: str
    """Release, as `uname -r` in a node prints it."""
    source: str
    """Debian package and version, or the given tarball's name; with the tarball's sha256."""
    digest: str
    """Names the inputs: fragments, tcp_prague.c, patches (with the files they insert), compiler, a given tarball."""


def recipe(source: Path | None) -> str:
    """The digest of everything that goes into a build (see Kernel.digest). Reads only local files.

    Raises BuildError when `source` is not a readable file.
    """
    parts = [(name, (kconfig.FRAGMENTS / f"{name}.config").read_bytes()) for name in kconfig.VIRTUAL]
    parts += [("tcp_prague.c", PRAGUE.read_bytes()), ("edits", repr(patches.EDITS).encode())]
    parts.append(("compiler", _compiler().encode()))
    if source:
        parts.append(("source", _sha256(source).encode()))
    return cache.digest(parts)


def ensure_kernel(source: Path | None = None, progress: Progress | None = None) -> Kernel:
    """The kernel that these fragments make, built now if the cache does not have it.

    Args:
        source: a kernel tarball (.tar.xz, .tar.gz); without, the newest linux-source-7.x of the archive.
            With a cached build of the same recipe the archive is not asked.
        progress: told what is being done and the fraction done.

    Raises:
        BuildError: a tool, an option or the source is missing, or the kernel fails to compile or to work.
    """
    digest = recipe(source)
    tell = progress or (lambda _what, _fraction: None)
    entry = cache.build_once(cache.root() / "kernel" / digest, lambda scratch: _build(scratch, source, digest, tell))
    made = json.loads((entry / "kernel.json").read_text())
    return Kernel(entry / "linux", entry / "config", made["version"], made["source"], digest)


def _build(scratch: Path, given: Path | None, digest: str, tell: Progress) -> None:
    if missing := [tool for tool in TOOLS if not shutil.which(tool)]:
        raise BuildError(f"not installed: {', '.join(missing)}; as root: {APT_LINE}")
    log = cache.root() / "kernel" / f"{digest}.log"
    with _tarball(given, scratch, tell) as (tarball, name), log.open("wb") as out:
        tell("unpacking the kernel source", 0.07)
        tree, objects = scratch / "source", scratch / "objects"
        tree.mkdir()
        objects.mkdir()
        _call(["tar", "-C", str(tree), "--strip-components=1", "-xf", str(tarball)], log)
        patches.apply_all(tree)
        shutil.copy(PRAGUE, tree / "net/ipv4/tcp_prague.c")

        tell("configuring the kernel", 0.12)
        wanted = scratch / "wanted.config"
        wanted.write_text(kconfig.fragment(kconfig.VIRTUAL))
        make = ["make", "-C", str(tree), f"O={objects}", "ARCH=um"]
        _call([*make, f"KCONFIG_ALLCONFIG={wanted}", "allnoconfig"], log)
        if unmet := kconfig.unmet(kconfig.parse(wanted.read_text()), kconfig.parse((objects / ".config").read_text())):
            raise BuildError(f"{name} does not take these options: {', '.join(unmet)}")

        compiled = 0
        jobs = ["nice", *make, f"-j{len(os.sched_getaffinity(0))}"]
        with subprocess.Popen(
            jobs, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=_environment(), text=True
        ) as build:
            assert build.stdout is not None
            for line in build.stdout:
                out.write(line.encode())
                if line.startswith("  CC "):
                    compiled += 1
                    tell("compiling the kernel", 0.13 + 0.84 * min(1, compiled / OBJECTS))
        if build.returncode:
            raise BuildError(f"the kernel does not compile (see {log}): {_last_error(log)}")
        version = (objects / "include/config/kernel.release").read_text().strip()
        shutil.copy(objects / "linux", scratch / "linux")
        shutil.copy(objects / ".config", scratch / "config")
    tell("trying the kernel", 0.98)
    _strip(scratch / "linux")
    # Only a kernel that passed enters the cache, so a warm start checks nothing.
    self_check(Kernel(scratch / "linux", scratch / "config", version, name, digest), ensure_guest())
    (scratch / "kernel.json").write_text(json.dumps({"version": version, "source": name}, indent=1) + "\n")
    for leftover in (tree, objects):
        cache.remove_tree(leftover)
    log.unlink()
    tell("kernel ready", 1.0)


@contextmanager
def _tarball(given: Path | None, scratch: Path, tell: Progress) -> Iterator[tuple[Path, str]]:
    """The kernel source and its name for the evidence; a download is removed afterwards."""
    if given:
        yield given, f"{given.name} sha256:{_sha256(given)}"
        return
    tell("reading the package lists", 0.0)
    archive = Archive(cache.root() / "apt")
    with archive.locked():
        archive.update()
        package = newest_source(archive.names(r"^linux-source-7\.[0-9]+$"))
        version = archive.version(package)
        deb = archive.download(
            package,
            scratch / "deb",
            lambda done: tell(f"downloading {package} {version}", 0.01 + 0.05 * done),
        )
    _call(["dpkg-deb", "-x", str(deb), str(deb.parent)], scratch / "dpkg.log")
    tarball = next((deb.parent / "usr/src").glob("linux-source-*.tar.*"))
    yield tarball, f"{package} {version} sha256:{_sha256(tarball)}"
    cache.remove_tree(deb.parent)


def newest_source(names: list[str]) -> str:
    """The linux-source package with the highest version in its name. Raises BuildError when there is none."""
    if not names:
        raise BuildError("the archive has no linux-source-7.x: give one with --kernel-source")
    return max(names, key=lambda name: [int(number) for number in re.findall(r"\d+", name)])


def _strip(linux: Path) -> None:
    _call(["strip", "--strip-debug", str(linux)], linux.with_suffix(".log"))
    linux.with_suffix(".log").unlink()


def _compiler() -> str:
    if not shutil.which("gcc"):
        raise BuildError(f"not installed: gcc; as root: {APT_LINE}")
    return subprocess.run(["gcc", "-dumpfullversion", "-dumpmachine"], capture_output=True, text=True).stdout


def _sha256(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise BuildError(f"--kernel-source {path}: {error.strerror}") from error


def _environment() -> dict[str, str]:
    """Fixed build names, so that the same inputs give the same kernel."""
    fixed = {"KBUILD_BUILD_USER": "sojourn", "KBUILD_BUILD_HOST": "sojourn", "KBUILD_BUILD_TIMESTAMP": "@0"}
    return {**os.environ, **fixed, "LC_ALL": "C.UTF-8", "MAKEFLAGS": ""}


def _call(command: list[str], log: Path) -> None:
    with log.open("ab") as out:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=_environment(), check=False
        )
    if done.returncode:
        raise BuildError(f"{command[0]} failed (see {log}): {_last_error(log)}")


def _last_error(log: Path) -> str:
    lines = [line for line in log.read_text(errors="replace").splitlines() if not line.startswith("make")]
    told = [line for line in lines if "error" in line.lower() or "can't" in line]
    return (told or lines or ["no output"])[-1]
