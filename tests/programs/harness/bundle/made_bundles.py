# SPDX-License-Identifier: Apache-2.0
"""Bundles made to deceive: manifest, headers and checksums agree with each other, and one thing is not as in ours."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import zstandard


@dataclass
class Made:
    """What becomes a bundle: the manifest's document, and the members in their order as (name, content, kind)."""

    run: str = "20260101T000000Z-t-c-0001"
    files: dict[str, bytes] = field(
        default_factory=lambda: {"a.log": b"said", "logs/b.json": b"{}", "c.bin": bytes(99)}
    )
    fields: dict[str, Any] = field(default_factory=dict)
    #: Change what is announced of a file: sha256 and size.
    entries: dict[str, dict[str, Any]] = field(default_factory=dict)
    kinds: dict[str, tuple[bytes, str]] = field(default_factory=dict)
    """Name → kind of member and what it links to."""
    first: list[tuple[str, bytes]] = field(default_factory=list)
    last: list[tuple[str, bytes]] = field(default_factory=list)
    folder: str = ""
    left_out: tuple[str, ...] = ()
    tail: bytes = b""
    pax: bool = False

    def archive(self) -> bytes:
        """Return the `.tar.zst`."""
        announced = {
            name: {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content)} | self.entries.get(name, {})
            for name, content in self.files.items()
        }
        document = {
            "schema_version": 1, "run": self.run, "test": "t", "cell": "c", "created": 0, "finished": 1,
            "status": "valid", "files": announced, "bundle": {"source": "0" * 64}, **self.fields,
        }  # fmt: skip
        folder = self.folder or self.run
        manifest = json.dumps(document, ensure_ascii=False).encode("utf-8", "surrogatepass")
        members = [*self.first, (f"{folder}/manifest.json", manifest)]
        members += [(f"{folder}/{name}", text) for name, text in self.files.items() if name not in self.left_out]
        packed = io.BytesIO()
        format = tarfile.PAX_FORMAT if self.pax else tarfile.GNU_FORMAT
        with tarfile.open(fileobj=packed, mode="w", format=format) as tar:
            for name, content in [*members, *self.last]:
                info = tarfile.TarInfo(name)
                info.size, inside = len(content), name.partition("/")[2]
                if inside in self.kinds:
                    info.type, info.linkname = self.kinds[inside]
                    info.size = 0 if info.type != tarfile.CONTTYPE else info.size
                if self.pax:
                    info.pax_headers = {"path": name}
                tar.addfile(info, io.BytesIO(content))
        return zstandard.ZstdCompressor(level=1).compress(packed.getvalue() + self.tail)


def _named(name: str) -> Callable[[Made], None]:
    return lambda made: made.files.update({name: b"planted"})


def _kind(kind: bytes, target: str = "/etc/passwd") -> Callable[[Made], None]:
    return lambda made: made.kinds.update({"a.log": (kind, target)})


def _field(**fields: Any) -> Callable[[Made], None]:
    return lambda made: made.fields.update(fields)


def _entry(**entry: Any) -> Callable[[Made], None]:
    return lambda made: made.entries.update({"a.log": entry})


def _set(**changes: Any) -> Callable[[Made], None]:
    def change(made: Made) -> None:
        for name, value in changes.items():
            setattr(made, name, value)

    return change


def _last(name: str, content: bytes = b"planted") -> Callable[[Made], None]:
    return lambda made: made.last.append((f"{made.run}/{name}", content))


#: What is wrong → how it is done. Each is refused alone, and beside any other.
DECEITS: dict[str, Callable[[Made], None]] = {
    "path above": _named("../planted"),
    "path above within": _named("logs/../../planted"),
    "absolute path": _named("/tmp/planted"),
    "empty part": _named("logs//planted"),
    "dot": _named("./planted"),
    "another system's separator": _named("logs\\planted"),
    "another system's drive": _named("C:planted"),
    "line in a name": _named("planted\nvalid"),
    "colour in a name": _named("planted\x1b[2K"),
    "written backwards": _named("planted\u202egpj.exe"),
    "lone surrogate": _named("planted\udcff"),
    "long name": _named("x" * 250),
    "long path": _named("/".join(["x" * 180] * 6)),
    "deep path": _named("/".join("x" * 20)),
    "twin but for case": _named("A.LOG"),
    "twin but for accents": lambda made: made.files.update({"caf\u00e9": b"1", "cafe\u0301": b"2"}),
    "file and folder": _named("a.log/planted"),
    "manifest but for case": _named("Manifest.JSON"),
    "signature": _named("manifest.json.sig/planted"),
    "run above": _set(run="..", folder="x"),
    "run with a folder": _set(run="x/y"),
    "run that is none": _set(run=" x"),
    "run of a hidden name": _set(run=".bashrc"),
    "name of a page": _set(run="index.html"),
    "name of a summary": _set(run="Summary"),
    "unfinished name": _set(run="x.partial"),
    "another run's folder": _set(folder="another"),
    "symbolic link": _kind(tarfile.SYMTYPE),
    "symbolic link inside": _kind(tarfile.SYMTYPE, "c.bin"),
    "hard link": _kind(tarfile.LNKTYPE),
    "folder": _kind(tarfile.DIRTYPE),
    "pipe": _kind(tarfile.FIFOTYPE),
    "device": _kind(tarfile.CHRTYPE),
    "disk": _kind(tarfile.BLKTYPE),
    "sparse": _kind(tarfile.GNUTYPE_SPARSE),
    "extended header": _set(pax=True),
    "extra file": _last("planted"),
    "file twice": _last("a.log", b"said"),
    "manifest twice": _last("manifest.json", b"{}"),
    "extra above": _last("../planted"),
    "another run's file": lambda made: made.last.append(("another/a.log", b"said")),
    "manifest second": lambda made: made.first.append((f"{made.run}/a.log", b"said")),
    "missing file": _set(left_out=("c.bin",)),
    "another sum": _entry(sha256="0" * 64),
    "no sum": _entry(sha256="../../etc/passwd"),
    "another size": _entry(size=3),
    "size below nothing": _entry(size=-4),
    "giant size": _entry(size=1 << 62),
    "number without end": _entry(size=10**400),
    "more behind its end": _set(tail=b"planted"),
    "archive behind its end": _set(tail=bytes(1024) + b"x" * 512),
    "not finished": _field(finished=None),
    "finished in no year": _field(finished=1e300),
    "unknown status": _field(status="great"),
    "unknown field": _field(more=1),
    "another schema": _field(schema_version=2),
    "number as text": _field(test=7),
    "giant text": _field(cell="x" * 200_000),
    "giant list": _field(reasons=[""] * 5000),
    "giant versions": _field(versions={str(n): "" for n in range(6000)}),
    "pruned above": _field(pruned={"../planted": {"sha256": "0" * 64, "size": 0}}),
    "git of another kind": _field(git=["x"]),
    "run of this machine": _field(bundle=None),
}
