# SPDX-License-Identifier: Apache-2.0
"""The image of an APU, booted in QEMU by its own boot loader, and driven as a lab drives its router."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from sojourn.bottleneck.router import Router
from sojourn.bottleneck.spec import Bottleneck
from sojourn.hardware.images import image
from sojourn.hardware.kernel_build import board
from sojourn.hardware.kernel_build.self_check import JOB, judge
from sojourn.hardware.machine.place import CommandError, Place
from tests.lab.qemu import Machine, booted

# Not for CI: its kernel takes a quarter of an hour, and QEMU is no part of set-up.
pytestmark = [pytest.mark.lab, pytest.mark.nightly]
BOOT_S = 240.0
"""Seconds that a boot may take; without KVM it is two minutes."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("board")


@pytest.fixture(scope="module")
def machine(folder: Path) -> Iterator[Machine]:
    """A fresh image with a key of its own, on a disk of 2 GB, up to its login prompt."""
    key = folder / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    disk = folder / "apu2.img"
    image.make_image(board.named("apu2"), disk, [key.with_suffix(".pub")])
    os.truncate(disk, 2 << 30)
    with booted(disk, folder) as machine:
        machine.console("apu login:", BOOT_S)
        yield machine


@pytest.fixture(scope="module")
def place(machine: Machine, folder: Path) -> Place:
    return machine.place(folder / "key", folder / "known_hosts")


def test_its_check_finds_all_that_a_lab_needs_and_says_so_on_the_console(machine: Machine) -> None:
    console = machine.log.read_text(errors="replace")
    assert "sojourn: this router is ready" in console and "MISSING" not in console
    assert re.search(r"ok +port management enp1s0 \(virtio_net, link up\)", console)
    assert re.search(r"ok +queues .*dualpi2", console)
    assert re.search(r"ok +congestion controls .*\bprague\b", console)
    assert re.search(r"ok +watchdog i6300ESB timer", console)


def test_a_lab_sets_up_dualpi2_over_ssh_and_reads_it_back(place: Place) -> None:
    router = Router(place, lan="enp2s0", wan="enp3s0")
    bottleneck = Bottleneck.symmetric(20_000_000, "dualpi2", 20_000)
    router.apply(bottleneck)
    router.verify(bottleneck)
    assert "qdisc dualpi2" in place.run(["tc", "qdisc", "show", "dev", "enp2s0"])
    router.clear()
    assert "dualpi2" not in place.run(["tc", "qdisc", "show", "dev", "enp2s0"])


def test_its_prague_is_a_module_and_sends_what_prague_must(place: Place) -> None:
    assert "tcp_prague" in place.run(["lsmod"])
    judge(place.run(["sh", "-s"], input=JOB.replace("CONTROL", "prague"), timeout=120))


def test_the_root_fills_the_disk_and_no_unit_failed(place: Place) -> None:
    assert int(place.run(["df", "--output=size", "-B1M", "/"]).split()[-1]) > 1800
    assert place.run(["systemctl", "--failed", "--plain", "--no-legend"]) == ""


def test_nobody_logs_in_without_a_key(machine: Machine, place: Place, folder: Path) -> None:
    other = folder / "other"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", other], check=True)
    with pytest.raises(CommandError, match=r"Permission denied \(publickey\)"):
        machine.place(other, folder / "known_hosts").run(["true"])
    # The image brings no host keys that other boxes would share.
    assert place.run(["stat", "-c", "%W", "/etc/ssh/ssh_host_ed25519_key"]) > place.run(
        ["stat", "-c", "%W", "/etc/fstab"]
    )


def test_nobody_becomes_root_by_an_empty_password(place: Place) -> None:
    assert place.run(["getent", "shadow", "root"]).startswith("root:*:")
    assert place.run(["sh", "-c", "grep -l nullok /etc/pam.d/* || true"]) == ""
    for typed in ("", "\n", "root\n", "*\n"):
        refused = place.run(
            ["sh", "-c", 'setpriv --reuid=nobody --clear-groups su -c "echo IN" 2>&1; true'], input=typed, timeout=60
        )
        assert "IN" not in refused and "uthentication failure" in refused, refused
