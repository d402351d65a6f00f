# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from sojourn.hardware.confine import confinement
from sojourn.hardware.images.guest import Guest
from sojourn.hardware.kernel_build import self_check
from sojourn.hardware.kernel_build.kernel import Kernel
from sojourn.hardware.machine.cache import BuildError

# A node's own words: Linux 7.2 with TCP Prague; and with DCTCP in its place, whose data leaves as ECT(0).
PRAGUE = """controls: reno bbr cubic prague prague-2020 dctcp reno-sce dctcp-sce cubic-sce
qdisc: dualpi2
accecn_syn: 1
data: 20
data_ect1: 20
"""
DCTCP = PRAGUE.replace("data_ect1: 20", "data_ect1: 0")


def test_a_kernel_that_proves_prague_passes() -> None:
    self_check.judge(PRAGUE)


@pytest.mark.parametrize(
    ("out", "says"),
    [
        (DCTCP, r"sends only 0 of 20 data packets as ECT\(1\)"),
        (PRAGUE.replace("data_ect1: 20", "data_ect1: 19"), r"sends only 19 of 20 data packets as ECT\(1\)"),
        (PRAGUE.replace("accecn_syn: 1", "accecn_syn: 0"), "does not negotiate AccECN"),
        (
            PRAGUE.replace(" prague prague-2020", "").replace("dualpi2", "pfifo_fast"),
            "missing in the built kernel: prague, prague-2020, dualpi2",
        ),
        (PRAGUE[: PRAGUE.index("accecn_syn")], "a TCP Prague flow fails on the built kernel: 'iperf3: error'"),
    ],
)
def test_what_does_not_work_is_named(out: str, says: str) -> None:
    with pytest.raises(BuildError, match=says):
        self_check.judge(out, "iperf3: error\n")


@pytest.fixture
def unconfined(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """No confinement, for a shell script in the kernel's place: it needs the host's shell."""
    monkeypatch.setenv(confinement.VARIABLE, confinement.Confinement.NONE)
    confinement.confinement.cache_clear()
    request.addfinalizer(confinement.confinement.cache_clear)


def boot(tmp_path: Path, script: str) -> None:
    """Check an executable that stands where the kernel would."""
    linux = tmp_path / "linux"
    linux.write_text(f"#!/bin/sh\n{script}\n")
    linux.chmod(0o755)
    guest = Guest(tmp_path, tmp_path / "key", tmp_path / "known_hosts", {}, "")
    self_check.self_check(Kernel(linux, tmp_path / "config", "", "", ""), guest)


@pytest.mark.usefixtures("unconfined")
def test_a_binary_that_is_no_kernel_fails_with_its_last_words(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="does not boot: 'Kernel panic'"):
        boot(tmp_path, "echo Kernel panic")


@pytest.mark.usefixtures("unconfined")
def test_a_kernel_that_hangs_fails_with_its_last_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(self_check, "TIMEOUT_S", 0.5)
    with pytest.raises(BuildError, match=r"did not end within 0\.5 s; console: VFS: cannot mount"):
        boot(tmp_path, "echo VFS: cannot mount; exec sleep 60")
