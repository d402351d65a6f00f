# SPDX-License-Identifier: Apache-2.0
"""From a recipe to a compiled kernel tree: source, patches, TCP Prague, configuration, make."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from sojourn.hardware.build_tool import compiler, digest_of_build, ended, started
from sojourn.hardware.images.archive import current
from sojourn.hardware.kernel_build import kconfig
from sojourn.hardware.kernel_build.kernel_source import UNUSED, KernelSource, identify, pack, was_built_in
from sojourn.hardware.machine import cache
from sojourn.hardware.machine.cache import BuildError, ProgressCallback, unreported
from sojourn.hardware.patches import apply_all, series

ADDED = {
    "tcp_prague.h": "net/ipv4",
    "tcp_prague.c": "net/ipv4",
    "tcp_prague_2020.c": "net/ipv4",
    "tcp_ledbat.c": "net/ipv4",
    "sch_slots.c": "net/sched",
    "tcp_sce.c": "net/ipv4",
    "tcp_sce.h": "include/net",
    "sce.h": "net/sched",
    "sce_ramp.h": "net/sched",
    "cobalt.h": "net/sched",
    "two_queues.h": "net/sched",
    "two_queues.c": "net/sched",
    "sch_cnq.c": "net/sched",
    "sch_lfq.c": "net/sched",
    "deltic.h": "net/sched",
    "sch_deltic.c": "net/sched",
}
"""Sojourn's source files in kconfig.FRAGMENTS, and the folder of the kernel source in which they are compiled."""
COMPILER, COMMON_HEADERS = kconfig.FRAGMENTS / "cc", kconfig.FRAGMENTS / "common.h"
MODULES = ("tcp_ect1", "tcp_prague", "tcp_prague_2020")
"""TCP Prague as modules, in the order in which they are loaded."""
MODULE_SOURCES = ("Makefile", "Kbuild", "unexported.h", "tcp_prague.h", *(f"{module}.c" for module in MODULES))
TOOLS = ("gcc", "git", "make", "bc", "bison", "flex", "xz", "tar")
APT_LINE = "apt-get install --no-install-recommends bc bison flex gcc git libc6-dev make xz-utils"


@dataclass(frozen=True)
class Recipe:
    """The purpose and the inputs of a kernel."""

    arch: str
    """Value of make's ARCH."""
    fragments: tuple[str, ...]
    """Names of configuration fragments; the last fragment with an option wins."""
    files: int
    """Approximate number of compiled files; only the progress display depends on it."""
    patches: tuple[Path, ...] = field(default_factory=series)
    hot: tuple[str, ...] = ()
    """Files, without `.c`, that are compiled with a profile if there is a training; only with `headers_once`."""
    trained_by: str = ""
    """The training's job; only the digest depends on it."""
    headers_once: bool = False
    """Whether common headers are parsed once for all files (kernel/cc); not for files that link user code."""
    goals: tuple[str, ...] = ()
    """The make targets; empty: all."""
    header: Path | None = None
    """A header that the build needs in addition to TOOLS."""
    apt_line: str = APT_LINE
    """How to install what the build needs."""


@dataclass(frozen=True)
class Tree:
    """A compiled kernel tree."""

    source: Path
    objects: Path
    """The build folder; modules are built against it."""
    version: str
    """Release, as `uname -r` prints it."""
    name: str
    """Debian package and version with the tarball's sha256, or the name of the given source."""

    def remove(self) -> None:
        """Remove source and objects (2 GB)."""
        for folder in (self.source, self.objects):
            cache.remove_tree(folder)


def digest(recipe: Recipe, source: KernelSource | None) -> str:
    """Return the digest of a build's inputs: fragments, files, patches, compiler, given source. Local files only.

    Raises BuildError without a compiler, unless the build was taken from an archive.
    """
    return digest_of_build(lambda gcc: _digest(recipe, source, gcc))


def _digest(recipe: Recipe, source: KernelSource | None, gcc: str) -> str:
    parts = [(name, (kconfig.FRAGMENTS / f"{name}.config").read_bytes()) for name in recipe.fragments]
    added = (kconfig.FRAGMENTS / name for name in ADDED)
    parts += [
        (path.name, path.read_bytes())
        for path in (*added, *((COMPILER, COMMON_HEADERS) if recipe.headers_once else ()))
    ]
    parts += [(f"patch {number}", patch.read_bytes()) for number, patch in enumerate(recipe.patches)]
    if recipe.hot:
        parts.append(("training", repr((recipe.hot, recipe.trained_by)).encode()))
    parts.append(("compiler", gcc.encode()))
    if source:
        parts.append(("source", source.key.encode()))
    return cache.digest(parts)


def digest_with_modules(recipe: Recipe, source: KernelSource | None) -> str:
    """Return the digest of the inputs of a kernel and its modules; as `digest`."""
    parts = [(name, (kconfig.FRAGMENTS / name).read_bytes()) for name in MODULE_SOURCES]
    return cache.digest([*parts, ("kernel", _digest(recipe, source, compiler()).encode())])


def compile_kernel(
    recipe: Recipe,
    scratch: Path,
    given: KernelSource | None,
    log: Path,
    report: ProgressCallback,
    train: Callable[[Path, Path], None] | None = None,
    before_compiling: Callable[[], object] = lambda: None,
) -> Tree:
    """Compile a kernel in `scratch`; the tools' output goes to `log`.

    Args:
        before_compiling: is called once the source is ready; what it raises ends the build before anything is compiled.
        train: runs a kernel (first argument) that writes counts to a folder (second argument). The recipe's hot
            files are then compiled with these counts. They change no result, so if the training fails (BuildError), a
            line reports it and the kernel is compiled without them.

    Raises:
        BuildError: a tool, an option or the source is missing, or the kernel fails to compile.
    """
    with log.open("wb") as out:
        prepared = prepare(recipe, scratch, given, log, report)
        before_compiling()
        compile_prepared(recipe, prepared, out, report, train)
    version = (prepared.objects / "include/config/kernel.release").read_text().strip()
    return Tree(prepared.source, prepared.objects, version, prepared.name)


@dataclass(frozen=True)
class Prepared:
    """A kernel tree that is ready to compile."""

    source: Path
    objects: Path
    name: str
    """As `Tree.name`."""
    make: tuple[str, ...]
    """The command that every step begins with."""

    @property
    def tools(self) -> Path:
        """The folder of the compiler `cc`, its list of hot files and their profile."""
        return self.source / "sojourn"


def prepared_in(recipe: Recipe, scratch: Path, name: str) -> Prepared:
    """Return the tree that `prepare` made in `scratch`."""
    tree, objects = scratch / "source", scratch / "objects"
    make = ["make", "-C", str(tree), f"O={objects}", f"ARCH={recipe.arch}"]
    if recipe.headers_once:
        make.append(f"CC={tree / 'sojourn' / COMPILER.name}")
    return Prepared(tree, objects, name, tuple(make))


def prepare(recipe: Recipe, scratch: Path, given: KernelSource | None, log: Path, report: ProgressCallback) -> Prepared:
    """Unpack, patch and configure a kernel source in `scratch`; the tools' output is appended to `log`.

    Raises BuildError as `compile_kernel` does.
    """
    missing = [tool for tool in TOOLS if not shutil.which(tool)]
    if recipe.header and not recipe.header.is_file():
        missing.append(str(recipe.header))
    if missing:
        raise BuildError(f"not installed: {', '.join(missing)}; as root: {recipe.apt_line}", code="missing-program")
    with _tarball(given, scratch, report) as (tarball, name):
        prepared = prepared_in(recipe, scratch, name)
        tree, make = prepared.source, list(prepared.make)
        report(0.07, "unpacking the kernel source")
        tree.mkdir()
        prepared.objects.mkdir()
        unpack = ["tar", "-C", str(tree), "--strip-components=1", *(f"--exclude={files}" for files in UNUSED)]
        call([*unpack, "-xf", str(tarball)], log)
        if given and was_built_in(given.path):
            call(["make", "-C", str(tree), f"ARCH={recipe.arch}", "mrproper"], log)
        apply_all(tree, recipe.patches)
        for file, folder in ADDED.items():
            shutil.copy(kconfig.FRAGMENTS / file, tree / folder)

        report(0.12, "configuring the kernel")
        wanted = scratch / "wanted.config"
        wanted.write_text(kconfig.fragment(recipe.fragments))
        if recipe.headers_once:
            prepared.tools.mkdir()
            shutil.copy(COMPILER, prepared.tools)
        call([*make, f"KCONFIG_ALLCONFIG={wanted}", "allnoconfig"], log)
        got = kconfig.parse((prepared.objects / ".config").read_text())
        if unmet := kconfig.unmet(kconfig.parse(wanted.read_text()), got):
            raise BuildError(f"{name} does not accept these options: {', '.join(unmet)}", code="unsupported")
        if recipe.headers_once:  # these include headers that make generates first
            call([*make, "prepare"], log)
            shutil.copy(COMMON_HEADERS, prepared.tools)
    return prepared


def compile_prepared(
    recipe: Recipe,
    prepared: Prepared,
    out: IO[bytes],
    report: ProgressCallback,
    train: Callable[[Path, Path], None] | None = None,
) -> None:
    """Compile a prepared tree; see `compile_kernel`."""
    jobs = [*prepared.make, _parallel(), *recipe.goals]
    if not (recipe.hot and train):
        _compile(recipe, jobs, out, report)
        return
    objects = prepared.objects
    (prepared.tools / "hot").write_text("".join(f"{file}.o\n" for file in recipe.hot))
    try:
        _compile(recipe, jobs, out, report, "generate")
        report(0.9, "training the compiler")
        train(objects / "linux", prepared.tools / "profile")
        _compile_again(recipe, jobs, objects, out, report, "use")
    except BuildError as failed:
        print(f"the kernel will be slower, compiled without a profile: {failed}", file=sys.stderr)
        _compile_again(recipe, jobs, objects, out, report)


def make_again(recipe: Recipe, prepared: Prepared, out: IO[bytes], *goals: str) -> None:
    """Compile what has changed in a compiled tree, or only `goals`. Raises BuildError."""
    goals = goals or recipe.goals
    _compile(recipe, [*prepared.make, _parallel(), *goals], out, unreported, "use")


def _parallel() -> str:
    return f"-j{len(os.sched_getaffinity(0))}"


def _compile(recipe: Recipe, jobs: list[str], out: IO[bytes], report: ProgressCallback, profile: str = "") -> None:
    compiled, log = 0, Path(out.name)
    with started(jobs, stderr=subprocess.STDOUT, env=_environment(profile)) as build:
        assert build.stdout is not None
        for line in build.stdout:
            out.write(line.encode())
            if line.startswith("  CC "):
                compiled += 1
                report(0.13 + 0.77 * min(1, compiled / recipe.files), "compiling the kernel")
    out.flush()
    if build.returncode:
        raise BuildError(f"the kernel does not compile (see {log}): {_last_error(log)}")


def _compile_again(
    recipe: Recipe, jobs: list[str], objects: Path, out: IO[bytes], report: ProgressCallback, profile: str = ""
) -> None:
    """Recompile the hot files, with or without a profile, and link."""
    again = f"compiling the packet path {'with its profile' if profile else 'without a profile'}"
    for file in recipe.hot:
        (objects / f"{file}.o").unlink(missing_ok=True)
    _compile(recipe, jobs, out, lambda share, what="": report(0.93, again), profile)


def compile_modules(recipe: Recipe, tree: Tree, folder: Path, log: Path) -> list[Path]:
    """Build TCP Prague's modules for a compiled tree into `folder`, with the Makefile that DKMS also uses.

    Raises BuildError if they do not compile.
    """
    folder.mkdir()
    for name in MODULE_SOURCES:
        shutil.copy(kconfig.FRAGMENTS / name, folder)
    call(["make", "-C", str(folder), f"KDIR={tree.objects}", f"ARCH={recipe.arch}", "modules"], log)
    return [folder / f"{module}.ko" for module in MODULES]


@contextmanager
def _tarball(given: KernelSource | None, scratch: Path, report: ProgressCallback) -> Iterator[tuple[Path, str]]:
    """Yield the kernel source and its name for the evidence; remove a download or a copy afterwards."""
    if given and given.path.is_dir():
        report(0.0, "copying the kernel source")
        copied = scratch / "source.tar"
        pack(given, copied)
        yield copied, given.name
        copied.unlink()
        return
    if given:
        yield given.path, given.name
        return
    report(0.0, "reading the package lists")
    archive = current()
    package = newest_source(archive.names(r"^linux-source-7\.[0-9]+$"))
    version = archive.version(package)
    deb = archive.download(
        package,
        scratch / "deb",
        lambda done: report(0.01 + 0.05 * done, f"downloading {package} {version}"),
    )
    call(["dpkg-deb", "-x", str(deb), str(deb.parent)], scratch / "dpkg.log")
    tarball = next((deb.parent / "usr/src").glob("linux-source-*.tar.*"))
    yield tarball, f"{package} {version} sha256:{identify(tarball).key}"
    cache.remove_tree(deb.parent)


def newest_source(names: list[str]) -> str:
    """Return the linux-source package with the highest version in its name. Raises BuildError if there is none."""
    if not names:
        raise BuildError("the archive has no linux-source-7.x; give a source with --kernel-source", code="missing")
    return max(names, key=lambda name: [int(number) for number in re.findall(r"\d+", name)])


def _environment(profile: str = "") -> dict[str, str]:
    """Return fixed build names: they affect the entropy, and the same inputs must give the same kernel."""
    names = {"USER": "sojourn", "HOST": "sojourn", "TIMESTAMP": "@0", "VERSION": "1"}
    fixed = {f"KBUILD_BUILD_{name}": value for name, value in names.items()}
    return {**os.environ, **fixed, "LC_ALL": "C.UTF-8", "MAKEFLAGS": "", "SOJOURN_PROFILE": profile}


def call(command: list[str], log: Path) -> None:
    """Run a command, its output appended to `log`. Raises BuildError with the last error."""
    with log.open("ab") as out:
        done = ended(command, env=_environment(), log=out)
    if done.returncode:
        raise BuildError(f"{command[0]} failed (see {log}): {_last_error(log)}")


def _last_error(log: Path) -> str:
    lines = [line for line in log.read_text(errors="replace").splitlines() if not line.startswith("make")]
    errors = [line for line in lines if "error" in line.lower() or "can't" in line]
    return (errors or lines or ["no output"])[-1]
