# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from sojourn.hardware.confine import confinement
from sojourn.hardware.images.guest import Guest
from sojourn.hardware.kernel_build import self_check
from sojourn.hardware.kernel_build.kernel import Kernel
from sojourn.hardware.machine.cache import BuildError
from sojourn.hardware.machine.errors import Code
from tests.refusals import refusal

# A node's own words: Linux 7.2 with TCP Prague; and with DCTCP in its place, whose data leaves as ECT(0).
PRAGUE = """controls: reno bbr cubic prague prague-2020 dctcp reno-sce dctcp-sce cubic-sce
qdiscs: dualpi2
accecn_syn: 1
data: 20
data_ect1: 20
"""
DCTCP = PRAGUE.replace("data_ect1: 20", "data_ect1: 0")


def test_a_kernel_that_proves_prague_passes() -> None:
    self_check.judge(PRAGUE)


@pytest.mark.parametrize(
    ("out", "why"),
    [
        (DCTCP, ("unsupported", " 0 of 20 ", "ECT(1)")),
        (PRAGUE.replace("data_ect1: 20", "data_ect1: 19"), ("unsupported", " 19 of 20 ", "ECT(1)")),
        (PRAGUE.replace("accecn_syn: 1", "accecn_syn: 0"), ("unsupported", "AccECN")),
        (
            PRAGUE.replace(" prague prague-2020", "").replace("dualpi2", "pfifo_fast"),
            ("missing", "prague, prague-2020, dualpi2"),
        ),
        (PRAGUE[: PRAGUE.index("accecn_syn")], ("failed", "Prague", "'iperf3: error'")),
    ],
)
def test_what_does_not_work_is_named(out: str, why: tuple[Code, *tuple[str, ...]]) -> None:
    with refusal(BuildError, *why):
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
    with refusal(BuildError, "not-started", "'Kernel panic'"):
        boot(tmp_path, "echo Kernel panic")


@pytest.mark.usefixtures("unconfined")
def test_a_kernel_that_hangs_fails_with_its_last_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(self_check, "TIMEOUT_S", 3)
    with refusal(BuildError, "no-answer", " 3 s", ": VFS: cannot mount"):
        boot(tmp_path, "echo VFS: cannot mount; exec sleep 60")
