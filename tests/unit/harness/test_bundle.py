# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import io
import json
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from harness.bundle import BundleError, export, verify
from harness.store import RunStore

Members = dict[str, bytes]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    with RunStore(tmp_path / "results").create("video_harm", "cell") as run:
        (run.path / "logs").mkdir()
        (run.path / "logs" / "caddy.log").write_text("started\n")
        (run.path / "scores.json").write_text("{}")
        (run.path / "screen.mp4").write_bytes(os.urandom(300_000))
        return run.commit()


def unpack(bundle: Path) -> Members:
    with tarfile.open(
        fileobj=io.BytesIO(zstandard.ZstdDecompressor().stream_reader(bundle.read_bytes()).read())
    ) as tar:
        return {m.name: tar.extractfile(m).read() for m in tar}  # type: ignore[union-attr]


def pack(path: Path, members: Members, *extra: tarfile.TarInfo) -> Path:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
        for info in extra:
            tar.addfile(info)
    path.write_bytes(zstandard.compress(raw.getvalue()))
    return path


def test_export_is_deterministic_and_verifies(run: Path, tmp_path: Path) -> None:
    first, second = export(run, tmp_path / "a.tar.zst"), export(run, tmp_path / "b.tar.zst")
    assert first.read_bytes() == second.read_bytes()
    assert verify(first) == verify(run) == verify(second)
    assert list(unpack(first)) == [
        f"{run.name}/{n}" for n in ("manifest.json", "logs/caddy.log", "scores.json", "screen.mp4")
    ]


def test_export_goes_beside_the_run_and_never_overwrites(run: Path) -> None:
    assert export(run) == run.parent / f"{run.name}.tar.zst"
    with pytest.raises(BundleError, match="exists"):
        export(run)


def damage(name: str) -> Callable[[Path], object]:
    return {
        "scores.json: differs": lambda run: (run / "scores.json").write_text("[]"),
        "scores.json: missing": lambda run: (run / "scores.json").unlink(),
        "more.txt: extra": lambda run: (run / "more.txt").write_text(""),
        "link: no plain file": lambda run: (run / "link").symlink_to("/etc/passwd"),
    }[name]


@pytest.mark.parametrize(
    "says", ["scores.json: differs", "scores.json: missing", "more.txt: extra", "link: no plain file"]
)
def test_a_changed_run_names_the_first_file_and_is_not_exported(run: Path, says: str) -> None:
    damage(says)(run)
    with pytest.raises(BundleError, match=says):
        verify(run)
    with pytest.raises(BundleError, match=says):
        export(run)


def test_a_changed_archive_names_the_first_file(run: Path, tmp_path: Path) -> None:
    good = unpack(export(run))
    key = f"{run.name}/scores.json"
    without = {name: content for name, content in good.items() if name != key}
    for members, says in [
        (good | {key: b"[]"}, "scores.json: differs"),
        (good | {key: b"{}" * 9}, "scores.json: differs from the manifest: 18 bytes, not 2"),
        (without, "scores.json: missing"),
        (good | {f"{run.name}/more": b""}, "more: extra"),
        (good | {"../evil": b""}, "leads outside"),
        (good | {f"{run.name}/../../evil": b""}, "leads outside"),
        (good | {"/etc/evil": b""}, "leads outside"),
        (dict(reversed(good.items())), "first member is not manifest.json"),
        ({}, "first member is not manifest.json"),
    ]:
        with pytest.raises(BundleError, match=says):
            verify(pack(tmp_path / "bad.tar.zst", members))


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.DIRTYPE])
def test_links_and_devices_are_refused(run: Path, tmp_path: Path, kind: bytes) -> None:
    info = tarfile.TarInfo(f"{run.name}/scores.json")
    info.type, info.linkname = kind, "/etc/passwd"
    members = unpack(export(run))
    del members[info.name]
    with pytest.raises(BundleError, match="no plain file"):
        verify(pack(tmp_path / "bad.tar.zst", members, info))


def test_a_manifest_that_announces_absurd_sizes_or_paths_is_refused(run: Path, tmp_path: Path) -> None:
    good = unpack(export(run))
    key = f"{run.name}/manifest.json"
    for change, says in [
        ({"a": {"sha256": "0" * 64, "size": 1 << 50}}, "more than 64 GiB"),
        ({"../../a": {"sha256": "0" * 64, "size": 1}}, "leads outside"),
    ]:
        manifest = json.loads(good[key])
        manifest["files"] |= change
        with pytest.raises(BundleError, match=says):
            verify(pack(tmp_path / "bad.tar.zst", good | {key: json.dumps(manifest).encode()}))


def test_a_member_that_holds_more_than_announced_is_never_read(run: Path, tmp_path: Path) -> None:
    good = unpack(export(run))
    bomb = good | {f"{run.name}/scores.json": bytes(200 << 20)}
    path = pack(tmp_path / "bomb.tar.zst", bomb)
    assert path.stat().st_size < 1 << 20
    with pytest.raises(BundleError, match="209715200 bytes, not 2"):
        verify(path)


def test_damaged_archives_are_one_clear_line(run: Path, tmp_path: Path) -> None:
    whole = export(run).read_bytes()
    for content in (whole[: len(whole) // 2], b"not zstd at all", b""):
        (tmp_path / "bad").write_bytes(content)
        with pytest.raises(BundleError) as error:
            verify(tmp_path / "bad")
        assert "\n" not in str(error.value)
    with pytest.raises(BundleError, match="No such file"):
        verify(tmp_path / "nothing")


def test_an_unsealed_run_says_that_it_was_killed(tmp_path: Path) -> None:
    run = RunStore(tmp_path).create("t", "c")
    with pytest.raises(BundleError, match="killed before its files were hashed"):
        verify(run.path)
