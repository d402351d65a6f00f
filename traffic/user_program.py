# SPDX-License-Identifier: Apache-2.0
"""The user's own sender: a server and a client command, read from a TOML file, with the files that they need.

Its name in records is `program_NAME`, by the file `NAME.toml`. `program_quic-cubic` is a built-in program
(`sojourn.traffic.program`), which runs in the same way. The files are copied to the cache, by content: a run uses the
copy, and the digest in its manifest identifies what was measured.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from sojourn.hardware.machine import cache, toml_file
from sojourn.hardware.machine.errors import CodedError
from sojourn.hardware.machine.messages import first_wrong
from sojourn.traffic.program import PROGRAMS, Program

PREFIX = "program_"
"""Begins the name of a contender that is the user's own program."""
OPTION = "program:"
"""What precedes the file, or the name of a built-in program, on the command line."""
CACHE = "programs"
"""The cache folder with copies of programs, which simulated machines see."""
PLACEHOLDERS = ("address", "port", "from_port", "seconds")
_NAME = re.compile(rf"{PREFIX}[a-z0-9][a-z0-9_.-]{{0,40}}")
_PLACEHOLDER = re.compile(r"\{([a-z_]*)\}")
_MOST_BYTES = 1 << 30


class UserProgramError(CodedError):
    """The definition of a program cannot be used, or the program cannot run; one line that names it."""


def is_user_program(name: object) -> bool:
    """Whether a contender's name is that of a user's own program."""
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


DEFAULT_TCP_ECN: Literal[2] = 2
"""Linux's `net.ipv4.tcp_ecn`: connections do not request ECN, and accept it."""


class UserProgram(BaseModel):
    """A sender of the user's: two commands, of which one sends the bulk data to the other.

    The server is started first, at one end of the path, and must open {port}, TCP or UDP; then the client is started
    at the other end. Both run until they are ended.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    name: str = Field(pattern=f"^{_NAME.pattern}$")
    server: str
    client: str
    sender: Literal["client", "server"]
    """The end that sends the bulk data."""
    ecn: Literal["not-ect", "ect0", "ect1"] | None = None
    """The codepoint that its data must have, else the run is invalid; None: any."""
    tcp_ecn: Literal[0, 1, 2, 3] = DEFAULT_TCP_ECN
    """`net.ipv4.tcp_ecn` at both ends when it starts, for a program that sends TCP."""
    files: dict[str, str] = {}
    """Path relative to the definition's folder → SHA-256, with `+x` after it for an executable file."""

    @field_validator("server", "client")
    @classmethod
    def _command(cls, command: str) -> str:
        try:
            words = shlex.split(command)
        except ValueError as wrong:
            raise ValueError(f"{command!r}: {wrong}") from wrong
        if not words:
            raise ValueError("is empty; give a command, such as './mine {address} {port}'")
        if unknown := next((it for it in _PLACEHOLDER.findall(command) if it not in PLACEHOLDERS), None):
            known = ", ".join(f"{{{name}}}" for name in PLACEHOLDERS)
            raise ValueError(f"unknown placeholder {{{unknown}}}; known: {known}")
        return command

    @field_validator("files")
    @classmethod
    def _inside(cls, files: dict[str, str]) -> dict[str, str]:
        for name in files:
            if Path(name).is_absolute() or ".." in Path(name).parts:
                raise ValueError(f"{name!r} is outside the folder")
        return files

    @model_validator(mode="after")
    def _has_port(self) -> Self:
        if "{port}" not in self.server or "{port}" not in self.client:
            raise ValueError("server and client: both must take {port}, by which Sojourn recognises its packets")
        return self

    @property
    def digest(self) -> str:
        """A digest of commands and files."""
        return cache.digest([("program", self.model_dump_json(exclude={"name"}).encode())])

    @property
    def folder(self) -> Path:
        """The copy of its files in the cache."""
        return cache.root() / CACHE / self.digest

    @property
    def versions(self) -> dict[str, str]:
        """For a manifest: the digest of the definition, and the SHA-256 of its executable files."""
        what = f"program {self.name.removeprefix(PREFIX)}"
        executables = {name: seal.removesuffix("+x") for name, seal in self.files.items() if seal.endswith("+x")}
        return {what: self.digest} | {f"{what}: {name}": seal for name, seal in executables.items()}

    def command(self, side: Literal["client", "server"], values: Mapping[str, str | int]) -> list[str]:
        """Return the argv of one end; `values` are those of PLACEHOLDERS."""
        words = shlex.split(getattr(self, side))
        return [_PLACEHOLDER.sub(lambda found: str(values[found[1]]), word) for word in words]


def read_user_program(text: str) -> UserProgram:
    """Return the program of what follows `program:`: a TOML file, or the name of a built-in program.

    Copies its files to the cache; a built-in program is compiled if necessary. Raises UserProgramError, BuildError.
    """
    if text in PROGRAMS:
        return built_in(text)
    file = Path(text).expanduser()
    try:
        table = toml_file.read_toml(file)
    except OSError as missing:
        names = ", ".join(PROGRAMS)
        raise UserProgramError(
            f"{text}: {missing.strerror}; give a TOML file without a blank and ,+*@: in its name "
            f"(docs/your-sender.md), or one of {names}",
            code="unreadable-file",
        ) from missing
    except toml_file.TomlError as broken:
        raise UserProgramError(f"{text}: {broken}", code="unreadable-file") from broken
    return _stored(_defined(file, table), file.parent)


def _defined(file: Path, table: Mapping[str, Any]) -> UserProgram:
    """Return the program that a TOML file defines. Raises UserProgramError."""
    patterns = table.get("files", [])
    if not (isinstance(patterns, list) and all(isinstance(it, str) for it in patterns)):
        raise UserProgramError(f"{file}: files: give a list of file names", code="invalid-value")
    name = PREFIX + re.sub(r"[^a-z0-9_.-]+", "-", file.stem.lower()).strip("-_.")
    known = {key: value for key, value in table.items() if key not in ("name", "files")}
    keys = sorted(UserProgram.model_fields.keys() - {"name"})
    if odd := next((key for key in known if key not in keys), None):
        raise UserProgramError(f"{file}: {odd}: no such key; known: {', '.join(keys)}", code="unknown-option")
    try:
        found = UserProgram.model_validate({"name": name, **known})
        files = sorted({*_of_commands(found, file.parent), *_of_patterns(file, patterns)})
        if (size := sum((file.parent / it).stat().st_size for it in files)) > _MOST_BYTES:
            raise UserProgramError(f"{file}: its files have {size >> 20} MiB; give at most 1024", code="too-large")
        home = file.parent.resolve()
        if outside := [it for it in files if not (file.parent / it).resolve().is_relative_to(home)]:
            where = (file.parent / outside[0]).resolve()
            raise UserProgramError(
                f"{file}: {outside[0]} leads out of the folder, to {where}; copy that file there", code="outside"
            )
        seals = {it: _seal(file.parent / it) for it in files}
        return UserProgram.model_validate({**dict(found), "files": seals})
    except ValidationError as wrong:
        raise UserProgramError(f"{file}: {first_wrong(wrong)}", code="invalid-value") from wrong
    except OSError as failed:
        raise UserProgramError(f"{failed.filename}: {failed.strerror}", code="unreadable-file") from failed


def _of_commands(program: UserProgram, folder: Path) -> Iterator[str]:
    """Yield the files of the folder that the commands name as words; a program with a slash must be among them.

    Raises UserProgramError.
    """
    for side in ("server", "client"):
        first, *rest = shlex.split(getattr(program, side))
        if "/" in first:
            path = folder / first
            where = f"{program.name.removeprefix(PREFIX)}: {side}: {first}"
            if not Path(os.path.normpath(path)).is_relative_to(os.path.normpath(folder)):
                raise UserProgramError(
                    f"{where}: is outside the folder {folder.absolute()}; copy it there", code="outside"
                )
            if not path.is_file():
                raise UserProgramError(f"{where}: no such file in {folder.absolute()}", code="missing-program")
            if not os.access(path, os.X_OK):
                raise UserProgramError(
                    f"{where}: is not executable; run `chmod +x {shlex.quote(str(path))}`", code="not-executable"
                )
            rest.append(first)
        for word in rest:
            name = os.path.normpath(word)
            if not (Path(name).is_absolute() or name.startswith("..")) and (folder / name).is_file():
                yield name


def _of_patterns(file: Path, patterns: Iterable[str]) -> Iterator[str]:
    for pattern in patterns:
        if Path(pattern).is_absolute() or ".." in Path(pattern).parts:
            raise UserProgramError(f"{file}: files: {pattern!r} is outside the file's folder", code="outside")
        found = [path for path in sorted(file.parent.glob(pattern)) if path.is_file()]
        if not found:
            raise UserProgramError(f"{file}: files: {pattern!r}: no such file", code="missing")
        yield from (str(path.relative_to(file.parent)) for path in found)


def _seal(path: Path) -> str:
    with path.open("rb") as opened:
        content = hashlib.file_digest(opened, "sha256").hexdigest()
    return content + ("+x" if os.access(path, os.X_OK) else "")


def _stored(program: UserProgram, folder: Path) -> UserProgram:
    """Copy the program's files from `folder` to the cache; raises UserProgramError if they change meanwhile."""

    def copy(scratch: Path) -> None:
        for name, seal in program.files.items():
            (scratch / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(folder / name, scratch / name)
            (scratch / name).chmod(0o755 if seal.endswith("+x") else 0o644)
            if _seal(scratch / name) != seal:
                raise UserProgramError(f"{folder / name}: changed while it was read; try again", code="altered")

    cache.build_once(program.folder, copy)
    return program


def built_in(name: str) -> UserProgram:
    """Return a program of `sojourn.traffic.program` as one of the user's. Raises BuildError."""
    program: Program = PROGRAMS[name]
    executable = program.ensure()
    words = {"program": f"./{executable.name}", **{it: f"{{{it}}}" for it in PLACEHOLDERS}}
    user_program = UserProgram(
        name=PREFIX + name, server=program.receiver.format(**words), client=program.sender.format(**words),
        sender="client", files={executable.name: _seal(executable)},
    )  # fmt: skip
    return _stored(user_program, executable.parent)


def versions(programs: Iterable[UserProgram]) -> dict[str, str]:
    """Return the digests of programs and their executable files, by names for a manifest."""
    return {name: text for program in programs for name, text in program.versions.items()}


def defined(names: Iterable[str], known: Iterable[UserProgram]) -> tuple[UserProgram, ...]:
    """Return the programs among contenders' `names`, by the definitions `known`, or as built-in.

    Raises UserProgramError for one that has no definition, or that two define; BuildError.
    """
    by_name: dict[str, UserProgram] = {}
    for program in known:
        if by_name.setdefault(program.name, program) != program:
            bare = program.name.removeprefix(PREFIX)
            raise UserProgramError(f"two programs are called {bare!r}; rename one of the files", code="duplicate")
    found = []
    for name in dict.fromkeys(filter(is_user_program, names)):
        bare = name.removeprefix(PREFIX)
        if name not in by_name and bare not in PROGRAMS:
            raise UserProgramError(
                f"{name} is a program of yours; give {OPTION}{bare}.toml, the file that defines it",
                code="unknown-value",
            )
        found.append(by_name.get(name) or built_in(bare))
    return tuple(found)


def require_cached(programs: Iterable[UserProgram]) -> None:
    """Raise UserProgramError for a program whose files are not in the cache: a record alone must not name commands."""
    for program in programs:
        if not program.folder.is_dir():
            raise UserProgramError(
                f"{program.name}: its files are not in the cache of this machine; run it once from its own file: "
                f"--contenders={OPTION}{program.name.removeprefix(PREFIX)}.toml",
                code="confirm-files",
            )
