# SPDX-License-Identifier: Apache-2.0
"""Programs that read a third-party film, confined to that film, because a flaw in them would hand them to its author.

They can read the film and the system's programs; they have no network and few system calls, and if started by root they
run as another user (`sojourn.hardware.confine.confinement`). Memory, CPU time and file lengths are limited.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from sojourn.hardware.machine.cache import BuildError
from sojourn.hardware.machine.errors import CodedError
from sojourn.hardware.machine.scratch import scratch_folder

_MEMORY_BYTES, _PROCESSOR_S, _FILE_BYTES = 4 << 30, 4 * 3600, 8 << 30
_trusted: ContextVar[bool] = ContextVar("trusted", default=False)
_confined_already = False


class DecoderError(CodedError):
    """A decoder cannot be confined here; one line that names the film."""


@dataclass(frozen=True)
class Decoder:
    """A program that is ready to read films: the beginning of its command, and its names of the files."""

    command: tuple[str, ...]
    names: Mapping[Path, str]


def confined_already() -> None:
    """Confine no decoders of this process: it runs in a simulated machine, which is confined as a whole."""
    global _confined_already
    _confined_already = True


@contextmanager
def trusted_files() -> Iterator[None]:
    """Within the block, films are this process's recordings: their decoders may run unconfined if necessary."""
    before = _trusted.set(True)
    try:
        yield
    finally:
        _trusted.reset(before)


@contextmanager
def decoder(program: str, reads: Sequence[Path], writes: Sequence[Path] = ()) -> Iterator[Decoder]:
    """Yield the decoder `program` (a name, or a path) with the files that it reads and writes.

    Written files are in place on exit. Raises DecoderError if nothing can confine it.
    """
    limits = ("prlimit", f"--as={_MEMORY_BYTES}", f"--cpu={_PROCESSOR_S}", f"--fsize={_FILE_BYTES}", "--")
    with ExitStack() as stack:
        confined = None if _confined_already else _confined(stack, program, reads, writes)
        if confined is None:
            yield Decoder((*limits, program), {path: str(path) for path in (*reads, *writes)})
        else:
            yield Decoder((*limits, *confined.command), confined.names)


def _confined(stack: ExitStack, program: str, reads: Sequence[Path], writes: Sequence[Path]) -> Decoder | None:
    """Return the decoder in a jail; None if there is none and none is needed."""
    # In a simulated machine, every import takes time, and this one is not needed.
    from sojourn.hardware.confine.confinement import (
        DECODER_UID,
        SYSTEM,
        Confinement,
        ConfinementError,
        Jail,
        confinement,
        machine_user,
    )

    try:
        kind = confinement()
    except (ConfinementError, BuildError) as refused:
        if _trusted.get():
            return None
        why = f"it may come from a third party, and its decoder cannot be confined: {refused}"
        raise DecoderError(f"{reads[0]}: not decoded, because {why}", code="unsupported") from refused
    if kind is Confinement.NONE:
        return None
    where = Path(shutil.which(program) or program).absolute()
    system = [path for path in SYSTEM if path.exists()]
    system += [] if any(where.is_relative_to(path) for path in system) else [where]
    # A suffix may indicate the film's format; the launcher splits NAME=PATH at the first "=".
    names = {path: f"{number}{path.suffix.replace('=', '')}" for number, path in enumerate(reads)}
    user, folders = machine_user(kind, DECODER_UID), {}
    # The program reports missing files itself.
    there = [path for path in reads if path.exists()]
    shown = {names[path]: path if user is None else _readable(stack, path, user) for path in there}
    if writes:
        # Next to the final file, on the same file system.
        folders["out"] = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=".", dir=writes[0].parent)))
        names |= {path: f"out/{path.name}" for path in writes}
        stack.push(partial(_put, folders["out"], writes))
    jail = stack.enter_context(Jail(shown, folders, 0, libraries=system, user=DECODER_UID, kind=kind))
    return Decoder(tuple(jail.argv([str(where)], {"PATH": os.defpath})), names)


def _readable(stack: ExitStack, path: Path, user: int) -> Path:
    """Return a film that another user can read: the film itself, or a temporary copy."""
    if path.stat().st_mode & stat.S_IROTH and path.is_file():
        return path
    from sojourn.hardware.confine.confinement import lend

    folder = scratch_folder("-film")
    stack.callback(shutil.rmtree, folder, ignore_errors=True)
    copy = shutil.copytree if path.is_dir() else shutil.copyfile
    copy(path, folder / path.name)
    lend(folder, user)
    return folder / path.name


def _put(folder: Path, writes: Sequence[Path], failed: type[BaseException] | None, *_: object) -> None:
    """Move the decoder's output into place, unless something failed."""
    for path in writes if failed is None else ():
        if (made := folder / path.name).is_file():
            made.replace(path)
