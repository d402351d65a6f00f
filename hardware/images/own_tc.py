# SPDX-License-Identifier: Apache-2.0
"""What tc must know of a user's own qdiscs: objects from a folder's `q_*.c`, or the tc of an iproute2 tree."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from sojourn.hardware.build_tool import call, compiler, ended
from sojourn.hardware.machine import cache
from sojourn.hardware.machine.cache import BuildError

NAME = "tc"
"""Name by which a machine mounts the folder."""
HEADERS = Path(__file__).parents[1] / "tc"
"""Headers of tc for files that do not come with iproute2."""
#: Files of an iproute2 tree.
_TREE = ("configure", "Makefile", "lib/libnetlink.c", "tc/tc.c")
_PATTERN = "q_*.c"
_OBJECT = ("gcc", "-shared", "-fPIC", "-O2", "-Wall", "-D_GNU_SOURCE")
_NEEDS = ("gcc", "make", "bison", "flex")
_APT_LINE = "apt-get install --no-install-recommends bison flex gcc libc6-dev make"
USE = f"""busybox mkdir /run/{NAME}
busybox mount -t hostfs -o ro,{NAME}/. none /run/{NAME}
for folder in /usr/lib/*/tc; do busybox mount -o bind /run/{NAME}/objects $folder; done
[ ! -e /run/{NAME}/tc ] || busybox mount -o bind /run/{NAME}/tc /usr/sbin/tc
"""
"""Shell commands that put the mounted folder over a machine's own objects, and its tc over the machine's."""


def has_own_tc(folder: Path) -> bool:
    """Return whether a folder has C files for tc, or is an iproute2 tree."""
    return any(folder.glob(_PATTERN)) or _is_tree(folder)


def checked(folder: Path) -> Path:
    """Return `folder` if tc can be built from it. Raises ValueError with what would be right."""
    if not folder.is_dir():
        raise ValueError(f"no such folder: {folder}; give a folder with your q_NAME.c, or an iproute2 tree")
    if not has_own_tc(folder):
        raise ValueError(f"{folder} has no {_PATTERN} and is no iproute2 tree (no tc/tc.c); give one of these")
    return folder


def digest(folder: Path | None) -> str:
    """Identify what tc is built from, wherever the folder is, by 12 hexadecimal digits; empty without such a folder."""
    return cache.digest(_parts(folder))[:12] if folder and has_own_tc(folder) else ""


def ensure_tc(folder: Path, root: Path) -> Path:
    """Return the built folder of a user's tc for a guest's `root`, built now if it is not in the cache.

    It has `objects`, the guest's and the user's, and perhaps `tc`, a program. Raises BuildError with the compiler's
    first error.
    """
    parts = _parts(folder)
    parts += [(f"header {path.name}", path.read_bytes()) for path in HEADERS.iterdir()]
    parts += [(f"guest {path.name}", path.read_bytes()) for path in objects_folder(root).glob("*.so")]
    parts += [("compiler", compiler().encode()), ("command", repr(_OBJECT).encode())]

    def build(scratch: Path) -> None:
        shutil.copytree(objects_folder(root), scratch / "objects", symlinks=True)
        if _is_tree(folder):
            _build_tree(folder, scratch, objects_folder(root).parent)
        else:
            for path in sorted(folder.glob(_PATTERN)):
                _compile(path, scratch / "objects" / f"{path.stem}.so")

    return cache.build_once(cache.root() / "tc" / cache.digest(parts), build)


def use_in(job: Path) -> None:
    """Have a machine's job, a shell script, begin with the folder's tc in place of the guest's."""
    first, _, rest = job.read_text().partition("\n")
    job.write_text(f"{first}\n{USE}{rest}")


def _is_tree(folder: Path) -> bool:
    return all((folder / name).is_file() for name in _TREE)


def _parts(folder: Path) -> list[tuple[str, bytes]]:
    return [(str(path.relative_to(folder)), path.read_bytes()) for path in _sources(folder)]


def _sources(folder: Path) -> Iterator[Path]:
    if not _is_tree(folder):
        yield from sorted(path for path in folder.glob("*.[ch]") if not path.name.startswith(("sch_", "tcp_")))
        return
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (Path(place, name) for name in sorted(names) if not re.search(r"\.(o|a|so|d|orig|rej)$", name))


def objects_folder(root: Path) -> Path:
    """Return the folder of `root` in which its tc looks for objects. Raises BuildError without one."""
    if folder := next(root.glob("usr/lib/*/tc"), None):
        return folder
    raise BuildError(
        f"{root}: no usr/lib/*/tc: iproute2 is missing, or its objects are in another folder", code="missing"
    )


def _compile(path: Path, target: Path) -> None:
    done = ended([*_OBJECT, f"-I{HEADERS}", f"-I{path.parent}", "-o", str(target), str(path)])
    if done.returncode:
        raise BuildError(_first_error(done.stderr), code="invalid-value")
    symbol = f"{path.stem.removeprefix('q_')}_qdisc_util"
    if symbol not in call(["nm", "-D", "--defined-only", str(target)]).split():
        raise BuildError(
            f"{path}: defines no `{symbol}`, which tc looks for in {path.stem}.so; name the structure so",
            code="invalid-value",
        )


def _build_tree(folder: Path, scratch: Path, libraries: Path) -> None:
    """Build tc as a distribution does: with objects in the guest's folder of libraries."""
    if missing := [tool for tool in _NEEDS if not shutil.which(tool)]:
        raise BuildError(f"not installed: {', '.join(missing)}; as root: {_APT_LINE}", code="missing-program")
    tree = scratch / "tree"
    shutil.copytree(folder, tree, symlinks=True, ignore=shutil.ignore_patterns(".git", "*.o", "*.a", "config.mk"))
    environment = {**os.environ, "MAKEFLAGS": ""}
    libdir = f"/{libraries.relative_to(libraries.parents[2])}"
    for command in (
        [str(tree / "configure")],
        ["make", f"-j{len(os.sched_getaffinity(0))}", f"LIBDIR={libdir}", "SUBDIRS=lib tc"],
    ):
        done = ended(command, env=environment, cwd=tree)
        if done.returncode:
            raise BuildError(f"--iproute2-source: {folder}: {_first_error(done.stderr + done.stdout)}")
    shutil.copy(tree / "tc/tc", scratch / "tc")
    call(["strip", str(scratch / "tc")])
    cache.remove_tree(tree)


def _first_error(said: str) -> str:
    lines = said.strip().splitlines()
    return next(
        (line for line in lines if "error:" in line or "undefined reference" in line), (lines or ["no output"])[-1]
    )
