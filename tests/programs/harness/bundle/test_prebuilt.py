# SPDX-License-Identifier: Apache-2.0
"""Built things in one archive: taken as they were packed, and nothing of one that was changed."""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import zstandard
from typer.testing import CliRunner

from sojourn.hardware import build_tool
from sojourn.hardware.machine import cache
from sojourn.hardware.machine.errors import Code, CodedError
from sojourn.harness.bundle import prebuilt
from sojourn.harness.cli import app
from tests.refusals import refusal

NAME = "kernel/0123456789abcdef"


@pytest.fixture
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Use an own, empty cache of this name from now on."""

    def use(name: str) -> Path:
        monkeypatch.setenv("SOJOURN_CACHE", str(folder := tmp_path / name))
        return folder

    return use


@pytest.fixture
def entry(cached: Callable[[str], Path]) -> Path:
    """An entry with a program, a folder without files, a file of 3 MB, and a link that leads out of it."""

    def build(folder: Path) -> None:
        (folder / "linux").write_text("#!/bin/sh\necho taken\n")
        (folder / "linux").chmod(0o755)
        (folder / "root" / "mnt").mkdir(parents=True)
        (folder / "root" / "large").write_bytes(os.urandom(3_000_000))
        (folder / "root" / "sh").symlink_to("/bin/sh")

    return cache.build_once(cached("builder") / NAME, build)


def members(archive: Path) -> dict[str, tuple[tarfile.TarInfo, bytes]]:
    with archive.open("rb") as raw, zstandard.ZstdDecompressor().stream_reader(raw) as stream:
        whole = io.BytesIO(stream.read())
    with tarfile.open(fileobj=whole) as tar:
        files = {it.name: file for it in tar if it.isreg() and (file := tar.extractfile(it))}
        return {it.name: (it, files[it.name].read() if it.name in files else b"") for it in tar}


def write(archive: Path, content: Mapping[str, tuple[tarfile.TarInfo, bytes]]) -> Path:
    with (
        archive.open("wb") as raw,
        zstandard.ZstdCompressor().stream_writer(raw) as packed,
        tarfile.open(fileobj=packed, mode="w|", format=tarfile.GNU_FORMAT) as tar,
    ):
        for info, text in content.values():
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text))
    return archive


def test_what_was_packed_is_taken_by_its_digest(
    entry: Path, cached: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = prebuilt.pack([entry], archive := tmp_path / "a.tar.zst")
    assert prebuilt.pack([entry], again := tmp_path / "b.tar.zst") == digest
    assert archive.read_bytes() == again.read_bytes(), "the same entries give the same bytes"
    packed, gcc = cache.contents(entry), build_tool.compiler()

    there = cached("user") / NAME
    assert prebuilt.take(archive, sha256=digest) == [there]
    assert cache.contents(there) == packed and (there / "root" / "mnt").is_dir()
    assert subprocess.run([there / "linux"], capture_output=True, text=True).stdout == "taken\n"
    assert prebuilt.take(archive, sha256=digest) == [], "nothing is new"
    assert not [it for it in there.parents[1].iterdir() if it.name.startswith(".prebuilt") and it.is_dir()]
    # Its name is found without a compiler, and others still need one.
    monkeypatch.setattr(build_tool.shutil, "which", lambda _: None)
    assert build_tool.digest_of_build(lambda known: there.name if known == gcc else "other") == there.name
    with refusal(cache.BuildError, "missing-program", "gcc"):
        build_tool.digest_of_build(lambda known: f"{known} of another program")


def test_the_page_of_players_is_packed(entry: Path, tmp_path: Path) -> None:
    players = cache.build_once(
        entry.parents[1] / "web" / "players-0123456789abcdef", lambda folder: (folder / "a").touch()
    )
    prebuilt.pack([entry, players], archive := tmp_path / "a.tar.zst")
    assert f"web/{players.name}/a" in members(archive)


def test_a_signature_by_a_known_key_is_enough(entry: Path, cached: Callable[[str], Path], tmp_path: Path) -> None:
    for name in ("key", "other"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / name], check=True)
        (tmp_path / f"{name}.signers").write_text(f"{name} {(tmp_path / f'{name}.pub').read_text()}")
    prebuilt.pack([entry], archive := tmp_path / "a.tar.zst", tmp_path / "key")
    there = cached("user") / NAME
    with refusal(CodedError, "unknown-signer"):
        prebuilt.take(archive, tmp_path / "other.signers")
    assert not there.exists()
    assert prebuilt.take(archive, tmp_path / "key.signers") == [there]
    prebuilt.pack([there], unsigned := tmp_path / "b.tar.zst")
    with refusal(prebuilt.PrebuiltError, "unknown-signer", "is not signed"):
        prebuilt.take(unsigned, tmp_path / "key.signers")


def altered(content: dict[str, tuple[tarfile.TarInfo, bytes]]) -> None:
    info, text = content[f"{NAME}/linux"]
    content[f"{NAME}/linux"] = info, text.replace(b"taken", b"hacks")


def elsewhere(content: dict[str, tuple[tarfile.TarInfo, bytes]]) -> None:
    content["out"] = tarfile.TarInfo(f"{NAME}/../../out"), b"hacked"


def further(content: dict[str, tuple[tarfile.TarInfo, bytes]]) -> None:
    content["more"] = tarfile.TarInfo(f"{NAME}/more"), b"hacked"


def through_a_link(content: dict[str, tuple[tarfile.TarInfo, bytes]]) -> None:
    info, _ = content[f"{NAME}/root/sh"]
    info.linkname = "/tmp"


def without_a_file(content: dict[str, tuple[tarfile.TarInfo, bytes]]) -> None:
    del content[f"{NAME}/root/large"]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (altered, "altered"), (elsewhere, "outside"), (further, "unexpected-file"), (through_a_link, "altered"),
        (without_a_file, "missing"),
    ],
)  # fmt: skip
def test_of_a_changed_archive_nothing_is_taken(
    entry: Path,
    cached: Callable[[str], Path],
    tmp_path: Path,
    change: Callable[[dict[str, tuple[tarfile.TarInfo, bytes]]], None],
    code: Code,
) -> None:
    digest = prebuilt.pack([entry], archive := tmp_path / "a.tar.zst")
    change(content := members(archive))
    root = cached("user")
    with refusal(prebuilt.PrebuiltError, code, str(archive)):
        prebuilt.take(write(archive, content), sha256=digest)
    assert not [it for it in root.rglob("*") if it.is_file() and it.suffix != ".lock"]
    assert not (tmp_path / "out").exists()


def test_another_index_and_another_file_are_refused(entry: Path, cached: Callable[[str], Path], tmp_path: Path) -> None:
    prebuilt.pack([entry], archive := tmp_path / "a.tar.zst")
    cached("user")
    with refusal(prebuilt.PrebuiltError, "altered", "has the digest"):
        prebuilt.take(archive, sha256="0" * 64)
    content = members(archive)
    info, text = content["index.json"]
    index = json.loads(text)
    index["entries"] = {"guest/0123456789abcdef": {}}
    write(archive, {"index.json": (info, json.dumps(index).encode())})
    digest = hashlib.sha256(json.dumps(index).encode()).hexdigest()
    with refusal(prebuilt.PrebuiltError, "damaged", "guest"):
        prebuilt.take(archive, sha256=digest)
    archive.write_bytes(b"no archive")
    with refusal(prebuilt.PrebuiltError, "damaged", str(archive)):
        prebuilt.take(archive, sha256=digest)


def test_only_what_holds_no_secret_can_be_packed(entry: Path, tmp_path: Path) -> None:
    secret = entry.parents[1] / "guest" / entry.name
    secret.mkdir(parents=True)
    with refusal(prebuilt.PrebuiltError, "unsupported", "guest"):
        prebuilt.pack([secret], tmp_path / "a.tar.zst")
    assert not (tmp_path / "a.tar.zst").exists()


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--from=here.tar.zst"], "--from: give --signers or --sha256"),
        (["--from=/no/such", "--sha256=00"], "--from /no/such: no such file"),
        (["--from=http://a.example/x", "--sha256=00"], "give an https:// address"),
        (["--sha256=00"], "--sha256: nothing is taken"),
        (["--sign=key"], "--sign: nothing is packed"),
        (["--pack=/no/such/a.tar.zst"], "--pack: /no/such: no such folder"),
        (["--pack=/tmp"], "--pack: /tmp: a folder; give a file"),
        (["--pack=/tmp/.none.tar.zst", "--sign=/no/key"], "--sign /no/key: no such file"),
    ],
)
def test_what_has_no_effect_or_is_not_safe_is_refused(
    cached: Callable[[str], Path], words: list[str], line: str
) -> None:
    root = cached("user")
    done = CliRunner().invoke(app, ["build", *words])
    assert done.exit_code == 1 and line in done.stderr and done.stderr.count("\n") == 1
    assert not root.exists() or not list(root.iterdir())
