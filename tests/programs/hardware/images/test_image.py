# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import struct
import subprocess
import tarfile
from pathlib import Path

import pytest

from sojourn.hardware.images import disk, image, tc_objects
from sojourn.hardware.kernel_build import board, kconfig
from sojourn.hardware.machine.cache import BuildError
from tests.refusals import refusal


@pytest.fixture
def key(tmp_path: Path) -> Path:
    """A private key, its public one beside it."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "key"], check=True)
    return tmp_path / "key"


def test_the_boot_record_has_one_bootable_partition_that_the_kernel_finds_by_the_signature() -> None:
    record = disk.master_boot_record(bytes(range(256)) * 2, 0xDEADBEEF, 700 << 20)
    assert len(record) == 512 and record[:440] == (bytes(range(256)) * 2)[:440] and record[510:] == b"\x55\xaa"
    assert struct.unpack_from("<I", record, 440)[0] == 0xDEADBEEF and disk.part_uuid(0xDEADBEEF) == "deadbeef-01"
    active, kind, first, sectors = struct.unpack_from("<B3xB3xII", record, 446)
    assert (active, kind, first, sectors) == (0x80, 0x83, 2048, (700 << 20) // 512)
    assert record[462:510] == bytes(48)


def test_a_boot_loader_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    with refusal(BuildError, "too-large", "1048065 bytes", " 1048064 "):
        disk.assemble(tmp_path / "disk", bytes(512), bytes(disk.PARTITION - 511), 1)


def test_public_keys_of_all_files_go_in(tmp_path: Path, key: Path) -> None:
    public = key.with_suffix(".pub")
    (tmp_path / "two").write_text(f"\n{public.read_text()}# a comment\n")
    assert image.authorized_keys([public, tmp_path / "two"]).count(public.read_text()) == 2


def test_what_is_no_public_key_is_named_before_anything_is_built(tmp_path: Path, key: Path) -> None:
    (tmp_path / "text").write_text("no key\n")
    for file, why in (
        (key, ("bad-key", f"{key}.pub")),
        (tmp_path / "text", ("bad-key", "OpenSSH")),
        (tmp_path / "none", ("unreadable-file", "No such file")),
    ):
        with refusal(BuildError, *why, f"--ssh-key={file}: "):
            image.make_image(board.named("apu2"), tmp_path / "out", [file])


def test_an_output_that_exists_stays_as_it_is(tmp_path: Path, key: Path) -> None:
    (tmp_path / "out").write_text("precious")
    with refusal(BuildError, "exists", f"--output={tmp_path / 'out'}"):
        image.make_image(board.named("apu2"), tmp_path / "out", [key.with_suffix(".pub")])
    with refusal(BuildError, "missing", "--output=", tmp_path / "nowhere"):
        image.make_image(board.named("apu2"), tmp_path / "nowhere/out", [key.with_suffix(".pub")])
    assert (tmp_path / "out").read_text() == "precious"


def test_without_a_key_nobody_could_log_in(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with refusal(BuildError, "missing", "--ssh-key: "):
        image.make_image(board.named("apu2"), tmp_path / "out")


def test_a_board_that_is_not_there_is_named() -> None:
    with refusal(BuildError, "unknown-value", "--board=apu1: ", "apu2"):
        board.named("apu1")


def test_a_board_has_every_fragment_of_a_router_and_none_of_user_mode_linux() -> None:
    fragments = board.named("apu2").recipe.fragments
    assert set(kconfig.ROUTER) < set(fragments) and "uml" not in fragments
    built_in = kconfig.parse(kconfig.fragment(fragments))
    for option in ("IGB", "SP5100_TCO", "SATA_AHCI", "USB_STORAGE", "EXT4_FS", "SERIAL_8250_CONSOLE", "VIRTIO_NET"):
        assert built_in[f"CONFIG_{option}"] == "y"


def test_the_images_tc_knows_every_queue_of_its_kernel(tmp_path: Path) -> None:
    (tmp_path / "modules/lib/modules/7").mkdir(parents=True)
    (tmp_path / "vmlinuz").touch()
    kernel = board.BoardKernel(tmp_path / "vmlinuz", tmp_path / "modules", "7", "a source", "a digest")
    with tarfile.open(image._own_files(tmp_path, kernel)) as files:
        names = set(files.getnames())
    assert names >= {f"{image.TC_OBJECTS}/q_{kind}.so" for kind in tc_objects.KINDS} | {"usr/lib/modules/7"}


@pytest.mark.parametrize(
    "script", [image.PREPARE, *sorted(image.OVERLAY.glob("usr/local/sbin/*"))], ids=lambda p: p.name
)
def test_scripts_of_the_image_have_no_errors(script: Path) -> None:
    assert subprocess.run(["sh", "-n", script], capture_output=True, text=True, check=False).stderr == ""
    assert os.access(script, os.X_OK)
