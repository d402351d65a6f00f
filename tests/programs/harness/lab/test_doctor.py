# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from sojourn.hardware.lab.lab_file import LABS
from sojourn.hardware.machine.files import CHECKOUT
from sojourn.hardware.machine.programs import FURTHER, TOOLS, Tool, version
from sojourn.hardware.simulation import _PROMISED
from sojourn.harness.lab import doctor
from sojourn.harness.lab.needs import needed

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


def test_namespaces_are_not_judged_by_a_missing_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lab's programs say what to install."""
    monkeypatch.setattr(doctor, "find", lambda name: None)
    finding = doctor.namespaces()
    assert finding.verdict == "note" and not finding.stops("virtual") and "container" not in finding.fix


@pytest.mark.parametrize(("mb", "shown"), [(64.3217, "64.32 MB"), (10737.4, "10737 MB")])
def test_sizes_are_shown_in_full(monkeypatch: pytest.MonkeyPatch, mb: float, shown: str) -> None:
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda path: SimpleNamespace(total=mb * 1e6))
    assert [finding.found for finding in doctor.host_memory() if finding.subject == "/dev/shm"] == [shown]


def test_bbr_is_needed_by_the_default_origin() -> None:
    assert doctor.congestion_control("reno bbr cubic").verdict == "ok"
    without = doctor.congestion_control("reno cubic")
    assert without.verdict == "missing" and "modprobe tcp_bbr" in without.fix and "--origin-cc" in without.fix


def test_slow_clocks_and_stalling_hosts_are_noted() -> None:
    assert doctor.clock("tsc").verdict == "ok" and doctor.clock("hpet").verdict == "note"
    image = (CHECKOUT / "hardware/userland/router/usr/local/sbin/sojourn-check").read_text()
    assert f'\n{" | ".join(doctor._PRECISE_CLOCKS)}) good "clock ' in image
    assert doctor.jitter([0.06] * 1000).verdict == "ok"
    stalled = doctor.jitter([0.06] * 980 + [5.0] * 20)
    assert stalled.verdict == "note" and "P99 5.00" in stalled.found and "P50 0.06" in stalled.found


def test_a_processor_that_programs_see_is_noted() -> None:
    bare, hidden = (doctor.shown("AMD EPYC", " ".join(flags)) for flags in (("avx2",), _PROMISED))
    assert (bare.verdict, hidden.verdict) == (
        "note",
        "ok",
    ) and "host with the same features; hiding them needs abm, " in bare.fix
    assert hidden.found == "AMD EPYC, of which programs see x86-64-v3"


def test_sleep_overshoots_are_measured() -> None:
    late = doctor.sleep_overshoots(count=20)
    assert len(late) == 20 and min(late) >= 0


def test_a_missing_program_stops_the_labs_that_use_it() -> None:
    (finding,) = doctor.tools({Tool("no-such-program-here", "some-package"): ("virtual",)})
    assert finding.stops("virtual") and not finding.stops("sim")


def test_installed_programs_tell_their_version() -> None:
    said = version(next(tool for tool in TOOLS if tool.name == "git"))
    assert said and said[0].isdigit()


def test_every_program_comes_from_a_package_that_set_up_installs() -> None:
    assert {tool.package for tool in (*TOOLS, *FURTHER)} <= set(PACKAGES)


def test_examine_looks_at_every_part(tmp_path: Path) -> None:
    programs = {lab: needed(lab) for lab in LABS}
    examined, verdicts = doctor.examine(tmp_path / "cache", tmp_path / "results", programs)
    findings = {finding.subject: finding for finding in examined}
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
    tools = {tool.name for of in programs.values() for tool in of}
    assert all(
        finding.fix
        for finding in examined
        if finding.verdict != "ok" and finding.subject not in {*tools, "confinement"}
    )
    assert verdicts.keys() == set(LABS) and {verdict.labs for verdict in verdicts.values()} == {(lab,) for lab in LABS}


def test_simulated_time_is_not_judged_by_what_only_real_time_needs(tmp_path: Path) -> None:
    (tmp_path / "kernel" / "abc").mkdir(parents=True)
    examined, _ = doctor.examine(tmp_path, tmp_path, {"sim": needed("sim")})
    assert not {finding.subject for finding in examined} & {"user namespaces", "host stalls", "/dev/shm", "Xvfb"}
    wrong = [doctor.Finding("user namespaces", "missing", "refused", "run it privileged", ("virtual",))]
    assert doctor.judged("sim", wrong, []).found == "ready"
    assert doctor.judged("virtual", wrong, []).found == "user namespaces: refused (run it privileged)"


def test_a_physical_lab_is_judged_by_its_file(tmp_path: Path) -> None:
    file = CHECKOUT / "docs" / "examples" / "labs" / "black-box.toml"
    assert "`sojourn lab check --lab-file=" in doctor.judged("black-box", [], [], file).found
    assert "describes a [box]; use --lab=black-box" in doctor.judged("apu", [], [], file).found


def test_a_built_kernel_is_seen(tmp_path: Path) -> None:
    (tmp_path / "kernel" / "abc").mkdir(parents=True)
    (tmp_path / "guest" / ".abc.partial").mkdir(parents=True)
    verdicts = {finding.subject: finding.verdict for finding in doctor.caches(tmp_path)}
    others = dict.fromkeys(("guest root", "guest with browser", "clip", "web player"), "note")
    assert verdicts == {"kernel": "ok", **others}
