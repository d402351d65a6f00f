# SPDX-License-Identifier: Apache-2.0
"""A folder with a user's own `sch_*.c`, `tcp_*.c` and patches: what it defines, and its place in a kernel tree."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sojourn.hardware import patches
from sojourn.hardware.machine import cache
from sojourn.hardware.machine.cache import BuildError
from sojourn.hardware.machine.files import replace_file

BUILT = ("sch_*.c", "tcp_*.c")
"""The files that are compiled; they may include the headers and other C files next to them."""
PATCH = "*.patch"
"""Changes of files of the tree, applied in the order of their names after Sojourn's own."""
PLACE = "net/sojourn"
"""Where a kernel tree has them, except those that replace a file of the tree."""
#: A file of the tree with this name is replaced, and where it is.
_HOMES = {"sch": "net/sched", "tcp": "net/ipv4"}
#: The structure that a file registers, and its field with the name, by the file's prefix.
_OPERATIONS = {"sch": ("Qdisc_ops", "id"), "tcp": ("tcp_congestion_ops", "name")}
#: A comment, or in group 1 a text, in which there is none.
_COMMENT = re.compile(r"""("(?:\\.|[^"\\\n])*")|/\*.*?\*/|//[^\n]*""", re.DOTALL)
#: As tc and iperf3 take them in Sojourn's texts; the kernel's limit is 15 characters.
_NAME = re.compile(r"[a-z0-9_][a-z0-9_-]{0,14}")
_MAKEFILE = "ccflags-y += -I$(srctree)/net/sched -I$(srctree)/net/ipv4\nobj-y := {objects}\n"
#: In place of a file of the tree. Its definition keeps `cc` from parsing headers before the file.
_REPLACEMENT = '#define SOJOURN_REPLACED\n#include "{file}"\n'
#: Where a tree keeps its files that these replace or change.
_ORIGINALS = "sojourn/originals"
#: Not to be changed by a patch: they configure the kernel, which is done before, or are Sojourn's.
_UNCHANGEABLE = re.compile(rf"(.*/)?Kconfig[^/]*|(sojourn|{PLACE})/.*")


@dataclass(frozen=True)
class OwnFiles:
    """A folder's own files at the time when they were read."""

    folder: Path
    contents: Mapping[str, bytes]
    """Every C file and header directly in the folder, by name, except tc's `q_*.c`."""
    qdiscs: Mapping[str, str]
    """The names that tc has for its qdiscs → the file that registers each."""
    controls: Mapping[str, str]
    """The names of its congestion controls → the file that registers each."""
    patches: Mapping[str, bytes] = field(default_factory=dict)
    """Its patches by name, in the order in which they are applied."""

    @property
    def names(self) -> str:
        """What is compiled and applied, for a line of progress or evidence."""
        return ", ".join([*self.built, *self.patches])

    @property
    def built(self) -> list[str]:
        """The names of the files that are compiled."""
        return [name for name in self.contents if _is_built(name)]

    @property
    def digest(self) -> str:
        """Identifies names and contents, wherever the folder is."""
        return cache.digest([*self.contents.items(), *self.patches.items()])


def has_own_files(folder: Path) -> bool:
    """Return whether a folder has files of this kind; the top folder of a Linux tree has none."""
    return any(any(folder.glob(pattern)) for pattern in BUILT)


def read(folder: Path) -> OwnFiles:
    """Return the files of a folder and what they register. Raises ValueError that names the file, and OSError."""
    paths = sorted(path for path in folder.glob("*.[ch]") if path.is_file() and not path.name.startswith("q_"))
    contents = {path.name: path.read_bytes() for path in paths}
    found: dict[str, dict[str, str]] = {prefix: {} for prefix in _OPERATIONS}
    for file, content in contents.items():
        if not _is_built(file):
            continue
        names, (structure, field) = found[_prefix(file)], _OPERATIONS[_prefix(file)]
        registered = list(names_in(content.decode(errors="replace"), _prefix(file)))
        if not registered:
            raise ValueError(f'{folder / file}: no struct {structure} with .{field} = "NAME"')
        for name in registered:
            if not _NAME.fullmatch(name):
                raise ValueError(
                    f"{folder / file}: .{field} = {name!r}; give 1 to 15 lower-case letters, digits, _ and -"
                )
            if name in names:
                raise ValueError(f"{folder / file}: registers {name!r}, as {names[name]} does; rename one")
            names[name] = file
    patched = {path.name: path.read_bytes() for path in sorted(folder.glob(PATCH)) if path.is_file()}
    return OwnFiles(folder, contents, found["sch"], found["tcp"], patched)


@dataclass(frozen=True)
class Placement:
    """What a folder's files do to files of a kernel tree, by their paths in the tree."""

    replaced: tuple[str, ...] = ()
    patched: Mapping[str, str] = field(default_factory=dict)
    """Each file that patches change → the last of them."""


def names_in(source: str, prefix: str) -> Iterator[str]:
    """Yield the names of the qdiscs (`sch`) or congestion controls (`tcp`) that a C source defines."""
    structure, field = _OPERATIONS[prefix]
    for body in re.findall(
        rf"struct\s+{structure}\s+\w+[^=;{{]*=\s*{{(.*?)}}\s*;", _COMMENT.sub(r"\1", source), re.DOTALL
    ):
        yield from re.findall(rf'\.{field}\s*=\s*"([^"]*)"', body)


def place(own: OwnFiles | None, tree: Path) -> Placement:
    """Make a kernel tree's own files and changes those of `own`, and no others; return which files of the tree changed.

    Only what differs is written, so that make compiles no more than that. Raises BuildError before anything is written:
    a name is taken, or a patch does not apply.
    """
    contents = own.contents if own else {}
    replaced = [_home(name) for name in contents if _is_built(name) and _original(tree, _home(name)).exists()]
    patched: dict[str, tuple[str, bytes]] = {}
    if own:
        _refuse_taken(own, tree, replaced)
        patched = _patched(own, tree, replaced)
    changed = {file: content for file, (_, content) in patched.items()}
    for file in replaced:
        changed[file] = _REPLACEMENT.format(file=f"../../{PLACE}/{Path(file).name}").encode()
    originals = tree / _ORIGINALS
    kept_files = [str(path.relative_to(originals)) for path in originals.rglob("*") if path.is_file()]
    for file in kept_files:
        if file not in changed:
            _write(tree / file, (originals / file).read_bytes())
            (originals / file).unlink()
    for file, content in changed.items():
        if file not in kept_files:
            _write(originals / file, (tree / file).read_bytes())
        _write(tree / file, content)
    objects = [f"{Path(name).stem}.o" for name in contents if _is_built(name) and _home(name) not in replaced]
    wanted = {**contents, "Makefile": _MAKEFILE.format(objects=" ".join(objects)).encode()}
    for name, content in wanted.items():
        _write(tree / PLACE / name, content)
    for path in (tree / PLACE).iterdir():
        if path.name not in wanted:
            path.unlink()
    makefile, line = tree / "net/Makefile", f"obj-y += {Path(PLACE).name}/\n"
    if line not in (text := makefile.read_text()):
        makefile.write_text(text + line)
    return Placement(tuple(replaced), {file: patch for file, (patch, _) in patched.items()})


def first_error(said: str, own: OwnFiles, patched: Mapping[str, str]) -> str:
    """Return the first error that a build printed about these files or patches, with the user's path; else empty."""
    names = "|".join(map(re.escape, own.contents))
    error = re.search(rf"^\S*?{PLACE}/({names})(:\d+(?::\d+)?: (?:fatal )?error: .*)$", said, re.MULTILINE)
    if error:
        return f"{own.folder / error[1]}{error[2]}"
    changed = "|".join(map(re.escape, patched)) or "(?!)"
    error = re.search(rf"^(?:\S*/)?({changed})(:\d+(?::\d+)?: (?:fatal )?error: .*)$", said, re.MULTILINE)
    if error:
        return f"{own.folder / patched[error[1]]}: {error[1]}{error[2]}"
    link = re.search(r"^.*(?:undefined reference to|multiple definition of) .*$", said, re.MULTILINE)
    return link[0].strip() if link else ""


def _is_built(name: str) -> bool:
    return any(Path(name).match(pattern) for pattern in BUILT)


def _prefix(name: str) -> str:
    return name.partition("_")[0]


def _home(name: str) -> str:
    return f"{_HOMES.get(_prefix(name), '')}/{name}"


def _original(tree: Path, file: str) -> Path:
    """Return where a file of the tree itself is now."""
    kept = tree / _ORIGINALS / file
    return kept if kept.exists() else tree / file


def _patched(own: OwnFiles, tree: Path, replaced: list[str]) -> dict[str, tuple[str, bytes]]:
    """Return the files of a tree that patches change → the last patch and what it makes of the file."""
    last: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as name:
        patch, scratch = Path(name, "patch"), Path(name, "linux")
        for called, content in own.patches.items():
            patch.write_bytes(content)
            where = f"--kernel-source: {own.folder / called}: "
            try:
                files = patches.changed_files(patch)
            except patches.PatchError as wrong:
                raise BuildError(f"{where}{wrong}", code="invalid-value") from wrong
            for file in files:
                if _UNCHANGEABLE.fullmatch(file) or not _original(tree, file).is_file():
                    raise BuildError(
                        f"{where}changes {file}; a patch can change the kernel's C files, headers and makefiles; "
                        f"put new files next to it", code="invalid-value",
                    )  # fmt: skip
                if file in replaced:
                    raise BuildError(
                        f"{where}changes {file}, which {own.folder / Path(file).name} replaces; omit one",
                        code="conflict",
                    )
                if file not in last:
                    _write(scratch / file, _original(tree, file).read_bytes())
                last[file] = called
            if said := patches.refusal(scratch, patch):
                raise BuildError(f"{where}does not apply to Sojourn's kernel: {said}", code="unsupported")
        return {file: (called, (scratch / file).read_bytes()) for file, called in last.items()}


def _refuse_taken(own: OwnFiles, tree: Path, replaced: list[str]) -> None:
    for prefix, names in (("sch", own.qdiscs), ("tcp", own.controls)):
        for path in sorted((tree / _HOMES[prefix]).glob(f"{prefix}_*.c")):
            file = f"{_HOMES[prefix]}/{path.name}"
            if file in replaced:
                continue
            # The tree may still have what an earlier build put in place of the file.
            for name in names_in(_original(tree, file).read_text(errors="replace"), prefix):
                if name in names:
                    raise BuildError(
                        f"--kernel-source: {own.folder / names[name]}: {name!r} is the name of {file} of the kernel; "
                        f"rename yours, or name the file {path.name} to replace the kernel's", code="conflict",
                    )  # fmt: skip


def _write(path: Path, content: bytes) -> None:
    if not path.is_file() or path.read_bytes() != content:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, content)  # half an original would be the kernel's file from then on
