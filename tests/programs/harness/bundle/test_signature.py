# SPDX-License-Identifier: Apache-2.0
"""Bundles are signed by ssh keys, and what a killed import left is swept."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sojourn.hardware.machine.files import CHECKOUT
from sojourn.harness.bundle.archive import BundleError, check, import_bundle, verify
from sojourn.harness.bundle.export import ExportRequest, export, stands
from sojourn.harness.cli import app
from sojourn.harness.experiment.sweep import only_sweep_in
from sojourn.harness.store.manifest import MANIFEST, SIGNATURE, reseal
from tests.refusals import refusal
from tests.unit.harness.bundle.test_archive import pack, unpack


@pytest.mark.parametrize("content", [None, "no key"])
def test_a_key_that_cannot_sign_is_told_before_anything_is_written(run: Path, content: str | None) -> None:
    key = run.parent / "key"
    if content:
        key.write_text(content)
        key.chmod(0o600)
    with refusal(BundleError, "bad-key" if content else "missing", f"--sign {key}: "):
        export(run, request=ExportRequest(key=key))
    assert not list(run.parent.glob("*.tar.zst*"))


def test_a_signature_tells_by_whom(run: Path, keys: Path, tmp_path: Path) -> None:
    signed = export(run, request=ExportRequest(key=keys / "lab"))
    assert check(signed).key.startswith("ED25519 key SHA256:") and not check(signed).signer
    said = CliRunner().invoke(app, ["bundle", "verify", str(signed)]).output
    assert f"signed by the owner of the {check(signed).key}" in said
    assert check(signed, signers=keys / "signers").signer.startswith("me@lab.example (ED25519 key SHA256:")
    imported = import_bundle(signed, tmp_path / "there", keys / "signers")
    assert check(imported, signers=keys / "signers").signer
    done = CliRunner().invoke(app, ["bundle", "verify", str(signed), "--signers", str(keys / "signers")])
    assert done.exit_code == 0 and "signed by me@lab.example" in done.output


def test_a_signature_that_is_not_good_is_told(run: Path, keys: Path, tmp_path: Path) -> None:
    signers = keys / "signers"
    with refusal(BundleError, "not-signed"):
        check(export(run, tmp_path / "plain.tar.zst"), signers=signers)
    with refusal(BundleError, "unknown-signer", signers):
        check(export(run, tmp_path / "other.tar.zst", ExportRequest(key=keys / "other")), signers=signers)
    with refusal(BundleError, "missing", "--signers", keys / "none"):
        check(export(run, tmp_path / "lab.tar.zst", ExportRequest(key=keys / "lab")), signers=keys / "none")
    good = unpack(tmp_path / "lab.tar.zst")
    manifest = good[f"{run.name}/{MANIFEST}"].replace(b'"status": "valid"', b'"status": "void"')
    for change, says in [
        ({f"{run.name}/scores.json": b"[]"}, ("altered", "scores.json")),
        ({f"{run.name}/{MANIFEST}": manifest}, ("altered", "manifest.json", "me@lab.example")),
        ({f"{run.name}/{SIGNATURE}": b"no signature"}, ("unknown-signer", "manifest.json")),
    ]:
        with refusal(BundleError, *says):
            check(pack(tmp_path / "bad.tar.zst", good | change), signers=signers)


def test_a_bundle_that_another_key_signed_is_not_taken_for_ours(run: Path, keys: Path, tmp_path: Path) -> None:
    archive = export(run, request=ExportRequest(key=keys / "other"))
    assert stands(archive, run, ExportRequest(key=keys / "other"))
    with refusal(BundleError, "other-key", archive, check(archive).key):
        stands(archive, run, ExportRequest(key=keys / "lab"))
    forged = unpack(archive) | {f"{run.name}/{SIGNATURE}": b"no signature"}
    pack(archive, forged)
    assert not stands(archive, run, ExportRequest(key=keys / "lab"))
    with refusal(BundleError, "bad-signature"):
        check(archive)


def test_a_run_that_was_rescored_since_is_whole_and_no_longer_signed(run: Path, keys: Path, tmp_path: Path) -> None:
    imported = import_bundle(export(run, request=ExportRequest(key=keys / "lab")), tmp_path / "there")
    assert check(imported).key
    reseal(imported)
    (imported / MANIFEST).write_bytes((imported / MANIFEST).read_bytes() + b"\n")
    assert check(imported).key == "" and export(imported, tmp_path / "again.tar.zst")
    with refusal(BundleError, "altered", "manifest.json", "me@lab.example"):
        check(imported, signers=keys / "signers")


def test_an_imported_run_keeps_its_signature_until_it_changes(
    run: Path, keys: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    signed = export(run, request=ExportRequest(key=keys / "lab"))
    imported = import_bundle(signed, tmp_path / "there")
    again = export(imported, tmp_path / "again.tar.zst")
    assert again.read_bytes() == signed.read_bytes() and not caplog.text
    assert check(again, signers=keys / "signers").signer and stands(again, imported, ExportRequest())
    changed = export(imported, tmp_path / "changed.tar.zst", ExportRequest(without_video=True))
    assert not check(changed).key and f"{imported}: its signature does not cover the bundle" in caplog.text
    caplog.clear()
    other = export(imported, tmp_path / "other.tar.zst", ExportRequest(key=keys / "other"))
    assert check(other).key != check(signed).key and not caplog.text


def test_an_import_does_not_wait_for_a_map_in_its_results(run: Path, tmp_path: Path) -> None:
    results = tmp_path / "there"
    results.mkdir()
    with only_sweep_in(results):
        assert verify(import_bundle(export(run), results))


def test_what_a_killed_import_left_goes_with_the_next_one(run: Path, tmp_path: Path) -> None:
    """It waits in mid-archive for what a pipe never gives."""
    archive, slow, results = export(run), tmp_path / "slow", tmp_path / "there"
    os.mkfifo(slow)
    script = "import sys; from pathlib import Path; from sojourn.harness.bundle.archive import import_bundle as do; "
    command = [sys.executable, "-c", script + "do(*map(Path, sys.argv[1:]))", str(slow), str(results)]
    with subprocess.Popen(command, cwd=CHECKOUT) as importing, slow.open("wb", buffering=0) as pipe:
        pipe.write(archive.read_bytes()[: 256 << 10])
        end = time.monotonic() + 20
        while not (begun := list(results.glob(f".import-*/*/{MANIFEST}"))):
            assert importing.poll() is None and time.monotonic() < end
            time.sleep(0.02)
        first = import_bundle(archive, results)
        assert begun[0].exists()
        importing.kill()
    shutil.rmtree(first)
    assert begun[0].exists()
    assert list(results.iterdir()) == [*begun[0].parents[1:2]]
    import_bundle(archive, results)
    assert list(results.iterdir()) == [first] and verify(first)


def test_a_signer_may_have_lines_for_other_purposes(run: Path, keys: Path, tmp_path: Path) -> None:
    key = (keys / "lab.pub").read_text()
    (signers := tmp_path / "signers").write_text(f'git@lab.example namespaces="git" {key}me@lab.example {key}')
    assert check(export(run, request=ExportRequest(key=keys / "lab")), signers=signers).signer.startswith(
        "me@lab.example ("
    )
    signers.write_text(f'git@lab.example namespaces="git" {key}')
    with pytest.raises(BundleError, match=r"a key that is not in |differs from what git@lab.example signed"):
        check(run.with_name(run.name + ".tar.zst"), signers=signers)
