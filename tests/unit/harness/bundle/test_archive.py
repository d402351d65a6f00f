# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import io
import json
import os
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from typer.testing import CliRunner

from sojourn.hardware.machine.errors import Code
from sojourn.harness.bundle.archive import BundleError, BytesDone, claimed, import_bundle, verify
from sojourn.harness.bundle.export import export, export_all, runs_at
from sojourn.harness.cli import app
from sojourn.harness.store.manifest import CRATE, MANIFEST, read_manifest, reseal
from sojourn.harness.store.reasons import Reason
from sojourn.harness.store.runs import PARTIAL, RunStore
from tests.refusals import refusal

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
            header = info.tobuf()
            raw.write(header)
            tar.offset += len(header)
    path.write_bytes(zstandard.compress(raw.getvalue()))
    return path


def test_export_is_deterministic_and_verifies(run: Path, tmp_path: Path) -> None:
    first, second = export(run, tmp_path / "a.tar.zst"), export(run, tmp_path / "b.tar.zst")
    assert first.read_bytes() == second.read_bytes()
    assert verify(first) == verify(second)
    recorded = verify(run).files
    assert verify(first).files == recorded | {CRATE: verify(first).files[CRATE]}
    assert list(unpack(first)) == [
        f"{run.name}/{n}" for n in (MANIFEST, "logs/caddy.log", CRATE, "scores.json", "screen.mp4")
    ]


def test_the_crate_describes_every_file(run: Path) -> None:
    made = unpack(export(run))
    crate = json.loads(made[f"{run.name}/{CRATE}"])
    assert crate["@context"] == "https://w3id.org/ro/crate/1.2/context"
    things = {thing["@id"]: thing for thing in crate["@graph"]}
    assert len(things) == len(crate["@graph"])
    assert things[CRATE]["about"] == {"@id": "./"} and things["./"]["datePublished"].startswith("20")
    parts = {part["@id"] for part in things["./"]["hasPart"]}
    assert parts == {name.removeprefix(f"{run.name}/") for name in made} - {CRATE}
    for name in parts - {MANIFEST}:
        entry = read_manifest(run).files[name]
        assert (things[name]["sha256"], things[name]["contentSize"]) == (entry.sha256, str(entry.size))
    for thing in crate["@graph"]:  # whatever is pointed at here is here
        for value in (v for many in thing.values() for v in (many if isinstance(many, list) else [many])):
            if isinstance(value, dict) and "://" not in value["@id"]:
                assert value["@id"] in things


def test_a_run_that_changes_while_it_is_packed_gives_no_archive(run: Path) -> None:
    def begin(run: Path, size: int) -> BytesDone:
        """Do what `rescore --write` does at this moment; no size changes."""
        (run / "scores.json").write_text("[]")
        reseal(run, "scores.json")
        return lambda done: None

    with refusal(BundleError, "altered", "scores.json: ", "sha256 4f53cda18c2b…", "export again"):
        export(run, begin=begin)
    assert not [*run.parent.glob("*.tar.zst*")]
    assert verify(export(run))


@pytest.fixture
def runs(tmp_path: Path) -> list[Path]:
    made = []
    for cell in ("one", "two", "three"):
        with RunStore(tmp_path / "results").create("t", cell) as run:
            (run.path / "scores.json").write_text(f'{{"of": "{cell}"}}')
            made.append(run.commit())
    return sorted(made)


def test_a_second_export_makes_only_what_is_not_whole(runs: list[Path], tmp_path: Path) -> None:
    folder = tmp_path / "out"
    assert runs_at([tmp_path / "results", runs[0]]) == runs
    made = [exported.archive for exported in export_all(runs, folder)]
    assert made == [folder / f"{run.name}.tar.zst" for run in runs]
    whole = [path.read_bytes() for path in made if path]
    stamps = [path.stat().st_mtime_ns for path in made if path]
    made[0].unlink()  # type: ignore[union-attr]
    made[1].write_bytes(whole[1][:-20])  # type: ignore[union-attr]
    left = folder / f".{runs[0].name}.tar.zst-files.partial"
    left.mkdir()
    (left / "half").touch()
    (folder / f"{runs[0].name}.tar.zst.partial").write_bytes(b"left by a killed export")
    again = list(export_all(runs, folder))
    assert [exported.before for exported in again] == [False, False, True]
    assert [path.read_bytes() for path in made if path] == whole
    assert made[2].stat().st_mtime_ns == stamps[2]  # type: ignore[union-attr]
    assert sorted(folder.iterdir()) == sorted(path for path in made if path)


@pytest.mark.parametrize("name", ["x.zip", "x.tar.gz", "x.tar.zst"])
def test_an_archive_of_another_kind_or_of_several_runs_is_refused(runs: list[Path], tmp_path: Path, name: str) -> None:
    with refusal(BundleError, "invalid-value", tmp_path / name, "FILE.tar.zst"):
        list(export_all(runs, tmp_path / name))
    assert not (tmp_path / name).exists()


def test_a_bundle_of_another_state_is_never_replaced(runs: list[Path], tmp_path: Path) -> None:
    (archive,) = [exported.archive for exported in export_all(runs[:1])]
    assert archive
    before = archive.read_bytes()
    manifest = json.loads((runs[0] / MANIFEST).read_text())
    (runs[0] / MANIFEST).write_text(json.dumps(manifest | {"reasons": [{"code": "unknown", "text": "judged again"}]}))
    (exported,) = export_all(runs[:1])
    assert "older state of this run; move it" in exported.error and archive.read_bytes() == before
    mine = tmp_path / "mine.tar.zst"
    mine.write_bytes(b"something else of mine")
    (exported,) = export_all(runs[:1], mine)
    assert "give another -o" in exported.error and mine.read_bytes() == b"something else of mine"


def test_what_is_wrong_with_one_run_does_not_stop_the_others(runs: list[Path]) -> None:
    (runs[1] / "scores.json").write_text("changed")
    done = CliRunner().invoke(app, ["bundle", "export", str(runs[0].parent)])
    assert done.exit_code == 1 and "scores.json: differs" in done.output
    assert sorted(path.name for path in runs[0].parent.glob("*.tar.zst")) == [
        f"{run.name}.tar.zst" for run in (runs[0], runs[2])
    ]


def test_two_exports_of_one_archive_do_not_meet(run: Path, tmp_path: Path) -> None:
    archive = tmp_path / "a.tar.zst"
    with claimed(archive), refusal(BundleError, "in-use", archive):
        export(run, archive)
    assert export(run, archive) == archive


def test_a_folder_without_runs_is_told(tmp_path: Path) -> None:
    with refusal(BundleError, "not-a-run", tmp_path):
        runs_at([tmp_path])


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    """A folder with the keys lab and other, and a file of allowed signers that names the first."""
    folder = tmp_path / "keys"
    folder.mkdir()
    for name in ("lab", "other"):
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(folder / name)]
        subprocess.run(command, check=True)
    (folder / "signers").write_text(f"me@lab.example {(folder / 'lab.pub').read_text()}")
    return folder


def test_import_gives_the_run_back(run: Path, tmp_path: Path) -> None:
    archive = export(run)
    imported = import_bundle(archive, tmp_path / "new" / "results")
    assert imported == tmp_path / "new" / "results" / run.name
    assert list(imported.parent.iterdir()) == [imported]
    for name in read_manifest(run).files:
        assert (imported / name).read_bytes() == (run / name).read_bytes()
    assert not [path for path in (imported, *imported.rglob("*")) if path.stat().st_mode & 0o077]
    assert verify(imported) == verify(archive)
    with refusal(BundleError, "exists", imported):
        import_bundle(archive, imported.parent)
    with refusal(BundleError, "exists", run):
        import_bundle(archive, run.parent)


def test_an_interrupted_run_stays_partial(tmp_path: Path) -> None:
    run = RunStore(tmp_path / "results").create("t", "c")
    (run.path / "scores.json").write_text("{}")
    run.interrupt(Reason.of("disk-full", "the disk was full"))
    imported = import_bundle(export(run.path), tmp_path / "there")
    assert imported.name == run.path.name and imported.suffix == ".partial"


@pytest.mark.parametrize(
    ("damage", "code", "file"),
    [
        (lambda run: (run / "scores.json").write_text("[]"), "altered", "scores.json"),
        (lambda run: (run / "scores.json").unlink(), "missing", "scores.json"),
        (lambda run: (run / "more.txt").write_text(""), "unexpected-file", "more.txt"),
        (lambda run: (run / "link").symlink_to("/etc/passwd"), "not-a-file", "link"),
    ],
)
def test_a_changed_run_names_the_first_file_and_is_not_exported(
    run: Path, damage: Callable[[Path], object], code: Code, file: str
) -> None:
    damage(run)
    with refusal(BundleError, code, f"{file}: "):
        verify(run)
    with refusal(BundleError, code, f"{file}: "):
        export(run)


def test_an_archive_that_passes_for_a_run_of_this_machine_is_refused(run: Path, tmp_path: Path) -> None:
    """Of a run that was recorded here, `rerun` opens the files that it names."""
    good = unpack(export(run))
    key = f"{run.name}/manifest.json"
    own = json.loads(good[key]) | {"bundle": None}
    refused(
        pack(tmp_path / "bad.tar.zst", good | {key: json.dumps(own).encode()}),
        "not-a-bundle",
        f"{run.name}/manifest.json: bundle ",
    )


def test_a_changed_archive_names_the_first_file(run: Path, tmp_path: Path) -> None:
    good = unpack(export(run))
    key = f"{run.name}/scores.json"
    without = {name: content for name, content in good.items() if name != key}
    members: dict[str, bytes]
    why: tuple[Code, *tuple[str, ...]]
    for members, why in [
        (good | {key: b"[]"}, ("altered", "scores.json: ", "sha256 4f53cda18c2b…, not 44136fa355b3…")),
        (good | {key: b"{}" * 9}, ("altered", "scores.json: ", "18 bytes", " 2")),
        (without, ("missing", "scores.json: ")),
        (good | {f"{run.name}/more": b""}, ("unexpected-file", "more: ")),
        (good | {"../evil": b""}, ("outside", "../evil: ")),
        (good | {f"{run.name}/../../evil": b""}, ("outside", "../../evil: ")),
        (good | {"/etc/evil": b""}, ("outside", "/etc/evil: ")),
        (dict(reversed(good.items())), ("not-a-bundle", "first member", "manifest.json")),
        ({}, ("not-a-bundle", "first member", "manifest.json")),
    ]:
        refused(pack(tmp_path / "bad.tar.zst", members), *why)


def refused(archive: Path, code: Code, *mentioned: str) -> None:
    """Neither checked nor unpacked, and the archive is named; nothing is left of the try."""
    results = archive.parent / "a" / "b" / "refused"
    with refusal(BundleError, code, archive, *mentioned):
        verify(archive)
    before = sorted(archive.parent.rglob("*"))
    with refusal(BundleError, code, archive, *mentioned):
        import_bundle(archive, results)
    assert not list(results.iterdir())
    assert {path for path in archive.parent.rglob("*") if path not in before} <= {results, *results.parents}


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.DIRTYPE])
def test_links_and_devices_are_refused(run: Path, tmp_path: Path, kind: bytes) -> None:
    info = tarfile.TarInfo(f"{run.name}/scores.json")
    info.type, info.linkname = kind, "/etc/passwd"
    members = unpack(export(run))
    del members[info.name]
    refused(pack(tmp_path / "bad.tar.zst", members, info), "not-a-file", "scores.json: ")


def test_a_link_and_a_file_through_it_are_refused(run: Path, tmp_path: Path) -> None:
    members = unpack(export(run))
    link = tarfile.TarInfo(f"{run.name}/logs")
    link.type, link.linkname = tarfile.SYMTYPE, str(tmp_path)
    first = {name: content for name, content in members.items() if name.endswith(MANIFEST)}
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as tar:
        for info, content in [(tarfile.TarInfo(next(iter(first))), first[next(iter(first))]), (link, b"")]:
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    (tmp_path / "bad.tar.zst").write_bytes(zstandard.compress(raw.getvalue()))
    refused(tmp_path / "bad.tar.zst", "not-a-file", "logs: ")


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_SPARSE])
def test_headers_that_stand_for_more_are_refused_unread(run: Path, tmp_path: Path, kind: bytes) -> None:
    info = tarfile.TarInfo("head")
    info.type, info.size = kind, 7 << 30
    good = unpack(export(run))
    del good[f"{run.name}/screen.mp4"]
    refused(pack(tmp_path / "bad.tar.zst", good, info), "damaged", "head: ", "header")


def test_a_name_twice_is_refused(run: Path, tmp_path: Path) -> None:
    good = unpack(export(run))
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as tar:
        for name in [*good, f"{run.name}/scores.json"]:
            info = tarfile.TarInfo(name)
            info.size = len(good[name])
            tar.addfile(info, io.BytesIO(good[name]))
    (tmp_path / "bad.tar.zst").write_bytes(zstandard.compress(raw.getvalue()))
    refused(tmp_path / "bad.tar.zst", "duplicate", "scores.json: ")


def test_whatever_tar_would_find_behind_the_end_is_refused(run: Path, tmp_path: Path) -> None:
    good, bad = export(run), tmp_path / "bad.tar.zst"
    whole = zstandard.ZstdDecompressor().stream_reader(good.read_bytes()).read()
    with tarfile.open(fileobj=io.BytesIO(whole)) as tar:
        end = max(member.offset_data + -(-member.size // 512) * 512 for member in tar)
    forged = tarfile.TarInfo(f"{run.name}/scores.json")
    forged.size = 2
    member = forged.tobuf(tarfile.USTAR_FORMAT) + b"[]".ljust(512, b"\0")
    odd = bytearray(member)
    odd[136:148] = b"+AAAAAAAAAAA"  # a time that GNU tar reads and tarfile does not
    odd[148:156] = b" " * 8
    odd[148:156] = b"%06o\0 " % sum(odd[:512])
    behind: Code = "trailing-data"
    for tail, code in [
        (bytes(odd), "damaged"),
        (b"x" * 512 + member, "damaged"),
        (b"x" * 100, "damaged"),
        (bytes(512) + member, behind),
        (bytes(512 << 10) + member, behind),
        (bytes(2 << 20), behind),
    ]:
        bad.write_bytes(zstandard.compress(whole[:end] + tail))
        refused(bad, code)
    for first, code in ((whole[:end], "duplicate"), (whole, behind)):
        bad.write_bytes(zstandard.compress(first) + zstandard.compress(member))
        refused(bad, code)
    bad.write_bytes(zstandard.compress(whole[:end] + bytes(512 << 10)))
    assert verify(bad) == verify(good)


def test_a_manifest_that_announces_absurd_sizes_or_paths_is_refused(run: Path, tmp_path: Path) -> None:
    good = unpack(export(run))
    key = f"{run.name}/manifest.json"
    entry = {"sha256": "0" * 64, "size": 1}
    for change, why in [
        ({"a": entry | {"size": 1 << 50}}, ("too-large", "64 GiB")),
        ({"a": entry | {"size": 60 << 30}}, ("too-large", "1000 times")),
        ({"../../a": entry}, ("damaged", "files: ", "outside")),
        ({"/etc/a": entry}, ("damaged", "files: ", "outside")),
        ({"C:/a": entry}, ("damaged", "files: ", "outside")),
        ({"..\\a": entry}, ("damaged", "files: ", "outside")),
        ({"logs//a": entry}, ("damaged", "files: ", "outside")),
        ({"a\n": entry}, ("damaged", "files: ", "outside")),
        ({"SCORES.json": entry}, ("damaged", "files: ", "case")),
        ({"Manifest.json": entry}, ("damaged", "files: ", "case")),
        ({"logs": entry}, ("damaged", "files: ", "case")),
        ({"scores.json/a": entry}, ("damaged", "files: ", "case")),
        ({"caf\u00e9": entry, "cafe\u0301": entry}, ("damaged", "files: ", "case")),
        ({f"{n}": entry for n in range(10_001)}, ("damaged", "files: ", " 10000 ")),
    ]:
        manifest = json.loads(good[key])
        manifest["files"] |= change
        refused(pack(tmp_path / "bad.tar.zst", good | {key: json.dumps(manifest).encode()}), *why)


@pytest.mark.parametrize("name", ["..", ".", "", "a/b", "../x", "/x", "x.partial", "C:x", "-x", "x" * 300])
def test_a_run_whose_name_is_a_path_is_refused(run: Path, tmp_path: Path, name: str) -> None:
    good = unpack(export(run))
    manifest = json.loads(good.pop(f"{run.name}/{MANIFEST}")) | {"run": name}
    members = {f"{name}/{MANIFEST}": json.dumps(manifest).encode()}
    members |= {f"{name}/{key.split('/', 1)[1]}": content for key, content in good.items()}
    archive = pack(tmp_path / "bad.tar.zst", members)
    if len(name) < 200:
        refused(archive, "damaged", "run: ", repr(name))
    else:  # tar has a header of its own for such a name
        refused(archive, "damaged", "PaxHeader: ")


def test_a_member_that_holds_more_than_announced_is_never_read(run: Path, tmp_path: Path) -> None:
    good = unpack(export(run))
    bomb = good | {f"{run.name}/scores.json": bytes(200 << 20)}
    path = pack(tmp_path / "bomb.tar.zst", bomb)
    assert path.stat().st_size < 1 << 20
    refused(path, "altered", "209715200 bytes", " 2")


def test_damaged_archives_are_one_clear_line(run: Path, tmp_path: Path) -> None:
    whole = export(run).read_bytes()
    for content in (whole[: len(whole) // 2], b"not zstd at all", b""):
        (tmp_path / "bad").write_bytes(content)
        with pytest.raises(BundleError) as error:
            verify(tmp_path / "bad")
        assert "\n" not in str(error.value)
    with refusal(BundleError, "unreadable-file", tmp_path / "nothing", "No such file"):
        verify(tmp_path / "nothing")


def test_an_unsealed_run_says_that_it_was_killed(tmp_path: Path) -> None:
    run = RunStore(tmp_path).create("t", "c")
    with refusal(BundleError, "unfinished", run.path):
        verify(run.path)


def test_leftovers_that_are_links_are_left_alone(run: Path, tmp_path: Path) -> None:
    """In a results folder that somebody else made, they lead to folders and files of the user."""
    (theirs := tmp_path / "theirs" / "inner").mkdir(parents=True)
    theirs.chmod(0o555)
    (run.parent / f".x.tar.zst-files{PARTIAL}").symlink_to(tmp_path / "theirs")
    (run.parent / f"x.tar.zst{PARTIAL}").symlink_to(tmp_path / "made")
    export(run)
    assert theirs.stat().st_mode & 0o777 == 0o555 and not (tmp_path / "made").exists()


def test_a_run_within_a_run_is_refused(run: Path, tmp_path: Path) -> None:
    members = unpack(export(run))
    name = next(name for name in members if name.endswith(f"/{MANIFEST}"))
    manifest = json.loads(members[name])
    manifest["files"]["cell-1/seed-1/manifest.json"] = next(iter(manifest["files"].values()))
    members[name] = json.dumps(manifest).encode()
    refused(pack(tmp_path / "nested.tar.zst", members), "damaged", "a run in a run")
