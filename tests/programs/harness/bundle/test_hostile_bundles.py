# SPDX-License-Identifier: Apache-2.0
"""Bundles that nobody of ours made: refused in one line, within memory, with nothing written outside of the results."""

from __future__ import annotations

import io
import json
import random
import shutil
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest
import zstandard
from typer.testing import CliRunner

from sojourn.hardware.machine.files import CHECKOUT
from sojourn.harness.bundle.archive import BundleError, import_bundle, verify
from sojourn.harness.bundle.export import export
from sojourn.harness.cli import app
from tests.programs.harness.bundle.made_bundles import DECEITS, Made

#: Of an ordinary run of the tests, and of a night.
FEW, MANY = 600, 100_000
#: Imports damaged bundles from stdin's numbers: seed, count. Prints what became of them and the most memory held.
IMPORT = """
import io, json, random, resource, shutil, sys, tarfile
from collections import Counter
from pathlib import Path
import zstandard
from sojourn.harness.bundle.archive import BundleError, import_bundle
from tests.processes import peak_mb
from tests.unit.damage import damaged

whole, place, seed, count = Path(sys.argv[1]).read_bytes(), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
plain = zstandard.ZstdDecompressor().decompressobj().decompress(whole)
manifest_end = plain.index(b"\\n}") + 3
rng = random.Random(seed)
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
pack = zstandard.ZstdCompressor(level=1).compress
outside = sorted(place.parent.rglob('*'))


def some(size, near):
    edits = []
    for _ in range(rng.choice((1, 1, 2, 5))):
        where = rng.randrange(near if rng.random() < 0.7 else size)
        edits.append((where, rng.randrange(4), rng.randbytes(rng.randrange(1, 7))))
    return edits


def text(content):
    \"\"\"Another number, name or length in the manifest, the headers' sum left right.\"\"\"
    words = [b'"', b"{", b"[", b"1e999", b"-1", b"9" * 30, b"../", b"/etc/passwd", b"\\u0000", b"null", b"\\xff"]
    words += [b"[" * 5000]
    at = rng.randrange(512, manifest_end)
    word = rng.choice(words)
    return content[:at] + word + content[at + len(word):]


told = Counter()
for number in range(count):
    how = rng.randrange(4)
    if how == 0:
        content = damaged(whole, some(len(whole), 200))
    elif how == 1:
        content = pack(damaged(plain, some(len(plain), manifest_end)))
    elif how == 2:
        content = pack(text(plain))
    else:
        at = rng.randrange(0, len(plain), 512)  # a header's field: size, kind, name, device
        field, length = rng.choice(((0, 100), (124, 12), (156, 1), (157, 100), (345, 155), (148, 8)))
        content = pack(plain[: at + field] + rng.randbytes(length) + plain[at + field + length:])
    (file := place / "hostile.tar.zst").write_bytes(content)
    results = place / "results"
    try:
        run = import_bundle(file, results)
        told["same" if run.is_relative_to(results) else "OUTSIDE"] += 1
    except BundleError as error:
        told["refused" if str(error).isprintable() else "LINES"] += 1
    shutil.rmtree(results, ignore_errors=True)
(place / 'hostile.tar.zst').unlink()
assert sorted(place.parent.rglob('*')) == outside
print(json.dumps(told | {"most MB": peak_mb()}))
"""


def fuzzed(run: Path, place: Path, count: int) -> dict[str, int]:

    archive = export(run)
    (inner := place / "fuzz").mkdir()
    command = [sys.executable, "-c", IMPORT, str(archive), str(inner), "20", str(count)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=CHECKOUT, timeout=3600)
    assert done.returncode == 0, done.stderr[-3000:]
    told: dict[str, int] = json.loads(done.stdout)
    print(told)
    return told


def judge(told: dict[str, int], count: int) -> None:
    assert told.pop("most MB") < 300  # of the 1024 that it may have
    # What only says the same in other bytes, such as a header's unused field, may be taken.
    assert set(told) <= {"refused", "same"} and sum(told.values()) == count and told["refused"] > 0.8 * count


def test_damaged_bundles_are_refused_within_memory(run: Path, tmp_path: Path) -> None:
    judge(fuzzed(run, tmp_path, FEW), FEW)


@pytest.mark.nightly
def test_a_night_of_damaged_bundles(run: Path, tmp_path: Path) -> None:
    judge(fuzzed(run, tmp_path, MANY), MANY)


def taken(made: Made, place: Path) -> str:
    """Import a made bundle: why it is refused, or empty. Nothing is written but the run, and soon it is over."""
    (file := place / "made.tar.zst").write_bytes(made.archive())
    before, began = sorted(place.rglob("*")), time.process_time()
    try:
        run = import_bundle(file, place / "results")
    except BundleError as refused:
        assert time.process_time() - began < 5
        assert [path for path in sorted(place.rglob("*")) if path not in before] in ([], [place / "results"])
        return str(refused)
    assert run.parent == place / "results"
    shutil.rmtree(run)
    return ""


def test_what_is_made_like_ours_is_taken(tmp_path: Path) -> None:
    assert taken(Made(), tmp_path) == ""


@pytest.mark.parametrize("deceit", DECEITS)
def test_a_bundle_that_agrees_with_itself_is_refused_for_the_one_thing_that_is_wrong(
    tmp_path: Path, deceit: str
) -> None:
    DECEITS[deceit](made := Made())
    refused = taken(made, tmp_path)
    assert refused.isprintable() and refused


def test_no_deceit_hides_another(tmp_path: Path) -> None:
    rng = random.Random(20)
    for _ in range(300):
        several = rng.sample(list(DECEITS), rng.choice((2, 3, 5)))
        made = Made()
        for deceit in several:
            DECEITS[deceit](made)
        assert taken(made, tmp_path), several


#: Checks a bundle in a process of its own and prints by how many MB it grew, and what it said.
CHECK = """
import resource, sys
from pathlib import Path
from sojourn.harness.bundle.archive import BundleError, check
from tests.processes import peak_mb

resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
before = peak_mb()
try:
    check(Path(sys.argv[1]))
    print("TAKEN")
except BundleError as error:
    print(peak_mb() - before, error)
"""
ENTRY = '{"sha256": "' + "0" * 64 + '", "size": 0}'
HEAD = '{"schema_version": 1, "run": "r", "test": "t", "cell": "c", "created": 0, "finished": 1}'
BOMBS = {
    "reasons": ('"reasons": [' + ",".join(['""'] * 600_000) + "]", "reasons"),
    "files": ('"files": {' + ",".join(f'"{n}": {ENTRY}' for n in range(17_000)) + "}", "files"),
    "pruned": ('"pruned": {' + ",".join(f'"{n}": {ENTRY}' for n in range(17_000)) + "}", "pruned"),
    "deep": ('"files": {' + ",".join(f'"{n:04}/{"a/" * 480}a": {ENTRY}' for n in range(1900)) + "}", "not a plain p"),
    "nested": ('"x": ' + "[" * 900_000 + "]" * 900_000, "manifest.json"),
    "large": ('"more": "' + "x" * (3 << 20) + '"', "too many for a manifest"),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_manifest_that_unpacks_to_much_is_refused(tmp_path: Path, bomb: str) -> None:
    more, said = BOMBS[bomb]
    text = (
        '{"schema_version": 1, "run": "r", "test": "t", "cell": "c", "created": 0, "finished": 1, ' + more + "}"
    ).encode()
    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        member = tarfile.TarInfo("r/manifest.json")
        member.size = len(text)
        archive.addfile(member, io.BytesIO(text))
    (file := tmp_path / "bomb.tar.zst").write_bytes(zstandard.ZstdCompressor(level=19).compress(tar.getvalue()))
    done = subprocess.run([sys.executable, "-c", CHECK, str(file)], capture_output=True, text=True, cwd=CHECKOUT)
    assert done.returncode == 0, done.stderr[-2000:]
    grown_mb, refusal = done.stdout.split(" ", 1)
    print(bomb, file.stat().st_size, grown_mb, refusal[:100])
    assert file.stat().st_size < 100_000 and int(grown_mb) < 100 and said in refusal


@pytest.mark.parametrize("where", ["first member", "extra member", "file", "field"])
def test_a_bundle_draws_no_line_of_its_own(tmp_path: Path, where: str) -> None:
    """Whatever it is called that is wrong with it."""
    forged = "\x1b[1A\x1b[2K\nsigned by me@lab.example\x9b\u202e"
    document: dict[str, object] = {
        "schema_version": 1,
        "run": "r",
        "test": "t",
        "cell": "c",
        "created": 0,
        "finished": 1,
    }
    if where == "file":
        document["files"] = {forged: {"sha256": "0", "size": 0}}
    if where == "field":
        document[forged] = 1
    members = {forged if where == "first member" else "r/manifest.json": json.dumps(document).encode()}
    if where == "extra member":
        members[f"r/{forged}"] = b""
    file = tmp_path / "forged.tar.zst"
    with (
        zstandard.open(file, "wb") as packed,
        tarfile.open(fileobj=packed, mode="w|") as archive,
    ):
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    with pytest.raises(BundleError) as refused:
        verify(file)
    assert str(refused.value).isprintable()
    done = CliRunner().invoke(app, ["bundle", "verify", str(file)])
    assert done.exit_code == 1
    assert done.output.count("\n") == 1 and not set(done.output[:-1]) & set("\x1b\n\x9b\u202e\r"), repr(done.output)
