# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from hardware.machine.files import CHECKOUT
from hardware.machine.programs import TOOLS, Tool, version
from harness.lab import doctor

PACKAGES = (CHECKOUT / "harness" / "packages.txt").read_text().split("\n")


@pytest.mark.parametrize(
    ("name", "value", "fix"),
    [
        ("kernel/unprivileged_userns_clone", "0", "kernel.unprivileged_userns_clone=1"),
        ("kernel/apparmor_restrict_unprivileged_userns", "1", "apparmor_restrict_unprivileged_userns=0"),
        ("user/max_user_namespaces", "0", "user.max_user_namespaces="),
    ],
)
def test_refused_namespaces_name_the_switch(name: str, value: str, fix: str) -> None:
    assert fix in doctor.namespace_fix({name: value})
    other = "1" if value == "0" else "0"
    assert "container" in doctor.namespace_fix({name: other})


def test_namespaces_are_tried_for_real() -> None:
    allowed = subprocess.run(["unshare", "-Urnmpf", "true"], capture_output=True, check=False).returncode == 0
    finding = doctor.namespaces()
    assert (finding.verdict == "ok") == allowed, finding


def test_bbr_is_needed_by_the_default_origin() -> None:
    assert doctor.congestion_control("reno bbr cubic").verdict == "ok"
    without = doctor.congestion_control("reno cubic")
    assert without.verdict == "missing" and "modprobe tcp_bbr" in without.fix and "--origin-cc" in without.fix


def test_slow_clocks_and_stalling_hosts_are_noted() -> None:
    assert doctor.clock("tsc").verdict == "ok" and doctor.clock("hpet").verdict == "note"
    assert doctor.jitter([0.06] * 1000).verdict == "ok"
    stalled = doctor.jitter([0.06] * 980 + [5.0] * 20)
    assert stalled.verdict == "note" and "P99 5.00" in stalled.found and "P50 0.06" in stalled.found


def test_sleep_overshoots_are_measured() -> None:
    late = doctor.sleep_overshoots(count=20)
    assert len(late) == 20 and all(0 <= ms < 1000 for ms in late)


def test_a_missing_program_names_its_package() -> None:
    (finding,) = doctor.tools([Tool("no-such-program-here", "some-package")])
    assert finding.verdict == "missing" and finding.fix.endswith("some-package")


def test_installed_programs_tell_their_version() -> None:
    said = version(next(tool for tool in TOOLS if tool.name == "git"))
    assert said and said[0].isdigit()


def test_every_program_comes_from_a_package_that_set_up_installs() -> None:
    assert {tool.package for tool in TOOLS} <= set(PACKAGES)


def test_examine_looks_at_every_part(tmp_path: Path) -> None:
    findings = {finding.subject: finding for finding in doctor.examine(tmp_path / "cache", tmp_path / "results")}
    assert findings["kernel"].verdict == "note" and findings["kernel"].fix == "sojourn build"
    assert {
        "cores",
        "memory",
        "/dev/shm",
        "cache disk",
        "user namespaces",
        "real-time priority",
        "chromium",
    } <= set(findings)
    assert all(finding.fix for finding in findings.values() if finding.verdict != "ok")


def test_a_built_kernel_is_seen(tmp_path: Path) -> None:
    (tmp_path / "kernel" / "abc").mkdir(parents=True)
    (tmp_path / "guest" / ".abc.partial").mkdir(parents=True)
    verdicts = {finding.subject: finding.verdict for finding in doctor.caches(tmp_path)}
    assert verdicts == {"kernel": "ok", "guest root": "note", "clip": "note", "web player": "note"}
