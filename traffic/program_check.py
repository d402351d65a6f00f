# SPDX-License-Identifier: Apache-2.0
"""Whether the machine of a run can start the user's program, before anything starts."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Iterable
from pathlib import Path

from sojourn.hardware.images.guest import in_root
from sojourn.traffic.user_program import PREFIX, UserProgram, UserProgramError

_SYSTEM_PATH = ("usr/bin", "usr/sbin")
#: ELF: magic number, then class 2 (64 bit); at offset 18 the machine, 62: x86-64.
_ELF, _ELF64, _MACHINE, _X86_64 = b"\x7fELF", 2, 18, 62


def require_runnable(programs: Iterable[UserProgram], root: Path) -> None:
    """Raise UserProgramError for the first program that a machine with the root file system `root` cannot start."""
    for program in programs:
        for side in ("server", "client"):
            first = shlex.split(getattr(program, side))[0]
            if why := _hindrance(program.folder / first if "/" in first else _in_path(first, root), root):
                bare = program.name.removeprefix(PREFIX)
                raise UserProgramError(f"{bare}: {side}: {first}: {why}", code="missing-program")


def _in_path(name: str, root: Path) -> Path:
    return next((path for folder in _SYSTEM_PATH if (path := root / folder / name).exists()), root / "usr/bin" / name)


def _hindrance(path: Path, root: Path) -> str:
    """Return why the executable `path` cannot be started in `root`; empty if it can."""
    if not path.exists():
        return "the machine does not have it; put it next to the TOML file, and write ./NAME"
    if path.is_relative_to(root):
        return ""
    with path.open("rb") as opened:
        head = opened.read(256)
    if head.startswith(b"#!"):
        words = head[2:].split(b"\n")[0].decode(errors="replace").split()
        if words and Path(words[0]).name == "env":
            words = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
        last = Path(words[0] if words else "").name
        return "" if _in_path(last, root).exists() else f"its interpreter {last} is not in the machine"
    if not head.startswith(_ELF):
        return "is neither an ELF program nor a script with #!"
    if head[4] != _ELF64 or int.from_bytes(head[_MACHINE : _MACHINE + 2], "little") != _X86_64:
        return "is not a program for x86-64"
    return _missing_libraries(path, root)


def _missing_libraries(path: Path, root: Path) -> str:
    """Return which shared libraries or versions of them the loader of `root` does not find; it does not run `path`."""
    loader, *words = in_root(root, "usr/bin/true")[:-1]
    if subprocess.run([loader, "--verify", str(path)], capture_output=True, check=False).returncode:
        return ""  # linked statically
    done = subprocess.run([loader, *words, "--list", str(path)], capture_output=True, text=True, check=False)
    problems = [line.strip() for line in done.stdout.splitlines() if "not found" in line]
    problems += [line.partition(": ")[2] for line in done.stderr.splitlines() if ": " in line]
    if done.returncode == 0 and not problems:
        return ""
    return f"does not start in the machine: {'; '.join(problems[:2]) or 'unknown format'}; link it statically"
