# SPDX-License-Identifier: Apache-2.0
"""Check what works on this machine, what is missing, and how to fix it (`sojourn doctor`)."""

from __future__ import annotations

import os
import platform
import pwd
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from sojourn.hardware.confine.confinement import ConfinementError, confinement
from sojourn.hardware.lab.lab_file import LABS, PHYSICAL, LabFileError, read_lab_file
from sojourn.hardware.machine.cache import BuildError
from sojourn.hardware.machine.memory import available_bytes
from sojourn.hardware.machine.programs import Tool, find, install_command, processor, version
from sojourn.hardware.simulation import (
    HOSTS_PROCESSOR,
    WITH_BROWSER,
    SimulationError,
    check_memory,
    check_open_files,
    memory_bytes,
    missing_features,
    shown_processor,
)
from sojourn.harness.lab.machine import MEMORY
from sojourn.harness.lab.needs import built, missing, missing_text

Verdict = Literal["ok", "note", "missing"]
REAL_TIME = ("virtual", *PHYSICAL)
"""The labs that run on this host's clock."""

#: 40 ms of a stalled host is two frames of video; with a P99 above this, most runs are invalid (see --jitter-gate).
JITTER_LIMIT_MS = 2.0
CLOCK_SOURCE = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")
"""The file that names the kernel's clock source."""
_CONGESTION_CONTROLS = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
_PRECISE_CLOCKS = ("tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter", "xen")
_NAMESPACE_SWITCHES = {
    "kernel/unprivileged_userns_clone": ("0", "sysctl -w kernel.unprivileged_userns_clone=1"),
    "kernel/apparmor_restrict_unprivileged_userns": (
        "1",
        "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
    ),
    "user/max_user_namespaces": ("0", "sysctl -w user.max_user_namespaces=15000"),
}


@dataclass(frozen=True)
class Finding:
    """The result of one check: `missing` means that runs cannot work, `note` that they could work better."""

    subject: str
    verdict: Verdict
    found: str
    fix: str = ""
    labs: tuple[str, ...] = ()
    """The affected labs, if it does not affect all."""

    def stops(self, lab: str) -> bool:
        """Return whether this finding prevents runs in `lab`."""
        return self.verdict == "missing" and lab in self.labs


def examine(
    cache: Path, results: Path, programs: Mapping[str, Sequence[Tool]], lab_file: Path | None = None
) -> tuple[list[Finding], dict[str, Finding]]:
    """Check everything that labs need; takes about three seconds and changes nothing outside the cache.

    Args:
        programs: the programs that every lab needs (`sojourn.harness.lab.needs.needed`), by lab.
        lab_file: describes the physical labs; without it, they are judged by this host alone.

    Returns the findings, and for every lab whether it is ready.
    """
    users = {tool: tuple(lab for lab in programs if tool in programs[lab]) for of in programs.values() for tool in of}
    looks: list[tuple[Sequence[str], Callable[[], Iterable[Finding]]]] = [
        (LABS, lambda: machine(cache, results)),
        (("sim",), simulated_machine),
        (("sim",), lambda: [shown(*processor().values())]),
        (("sim", "virtual"), confined),
        (REAL_TIME, host_memory),
        (("virtual",), lambda: [namespaces(), congestion_control(_read(_CONGESTION_CONTROLS))]),
        (REAL_TIME, lambda: [realtime(), clock(_read(CLOCK_SOURCE)), jitter(sleep_overshoots())]),
        (LABS, lambda: tools(users)),
        (("sim", "virtual"), lambda: caches(cache)),
    ]
    findings = [
        replace(finding, labs=finding.labs or tuple(about))
        for about, look in looks
        if set(about) & set(programs)
        for finding in look()
    ]
    return findings, {lab: judged(lab, findings, missing(of), lab_file) for lab, of in programs.items()}


def judged(lab: str, findings: Iterable[Finding], absent: Sequence[Tool], lab_file: Path | None = None) -> Finding:
    """Return whether `lab` is ready, given the findings and the missing programs, with all fixes on one line."""
    names = {tool.name for tool in absent}
    wrong = [missing_text(absent)] if absent else []
    wrong += [
        f"{finding.subject}: {finding.found}" + (f" ({finding.fix})" if finding.fix else "")
        for finding in findings
        if finding.stops(lab) and finding.subject not in names
    ]
    if lab in PHYSICAL and lab_file:
        try:
            read_lab_file(lab_file, lab)
        except LabFileError as unusable:
            wrong.append(str(unusable))
    if wrong:
        return Finding(f"{lab} lab", "missing", "; ".join(wrong), install_command(absent) if absent else "", (lab,))
    further = f" here; `sojourn lab check --lab-file={lab_file}` checks its other machines"
    return Finding(f"{lab} lab", "ok", "ready" + (further if lab in PHYSICAL and lab_file else ""), labs=(lab,))


def machine(cache: Path, results: Path) -> Iterable[Finding]:
    """Yield findings about cores and disk."""
    cores = len(os.sched_getaffinity(0))
    yield Finding("system", "ok", f"{_os_name()}, Linux {platform.release()}, {platform.machine()}")
    few = "lab, browser and recorder need two cores; with fewer, real-time runs are invalid"
    yield replace(_at_least("cores", cores, 2, "", few), labs=REAL_TIME)
    to_build = 6.0 if not built(cache / "kernel") else 0.1
    for name, folder, need in (("cache disk", cache, to_build), ("results disk", results, 1.0)):
        free = shutil.disk_usage(_existing(folder)).free / 1e9
        yield _at_least(name, free, need, f"GB free for {folder}", "free some space, or use another disk")


def simulated_machine() -> Iterable[Finding]:
    """Yield whether memory and open files suffice for a simulated machine."""
    try:
        check_memory(MEMORY)
        check_open_files(WITH_BROWSER)
    except SimulationError as short:
        yield Finding("simulated machine", "missing", str(short))
    else:
        yield Finding("simulated machine", "ok", f"{memory_bytes(MEMORY) >> 20} MB of memory are free")


def shown(model: str, flags: str) -> Finding:
    """Judge whether programs of a simulated machine see the same of every host's processor."""
    if (seen := shown_processor(flags)) != HOSTS_PROCESSOR:
        return Finding("processor", "ok", f"{model}, of which programs see {seen}")
    needed = ", ".join(missing_features(flags))
    fix = f"a run has the same bytes only on a host with the same features; hiding them needs {needed}"
    return Finding("processor", "note", f"{model}, which programs see", fix)


def confined() -> Iterable[Finding]:
    """Yield how machines are confined; compiles the launcher into the cache if necessary."""
    try:
        yield Finding("confinement", "ok", f"by {confinement()}")
    except (ConfinementError, BuildError) as refused:
        yield Finding("confinement", "missing", str(refused))


def host_memory() -> Iterable[Finding]:
    """Yield findings about the memory for nodes and a browser on this host."""
    more = "close other programs; three nodes and Chromium need it"
    yield _at_least("memory", available_bytes() / 1e9, 2.5, "GB available", more)
    shm = shutil.disk_usage("/dev/shm").total if Path("/dev/shm").is_dir() else 0
    yield _at_least("/dev/shm", shm / 1e6, 256, "MB", "enlarge it (containers: --shm-size=1g); Chromium needs it")


def _at_least(subject: str, value: float, least: float, unit: str, fix: str) -> Finding:
    verdict: Verdict = "ok" if value >= least else "missing"
    figure = f"{value:.4g}" if value < 1000 else f"{value:.0f}"
    return Finding(subject, verdict, f"{figure} {unit}".strip(), f"at least {least:g}: {fix}")


def namespaces() -> Finding:
    """Try what a lab needs: user, network, mount and pid namespaces with a veth pair."""
    attempt = ["unshare", "--user", "--map-root-user", "--net", "--mount", "--pid", "--fork", "--mount-proc"]
    if not (ip := find("ip")):
        return Finding("user namespaces", "note", "not tried: ip is not installed", "install iproute2")
    try:
        done = subprocess.run(
            [*attempt, ip, "link", "add", "v0", "type", "veth", "peer", "name", "v1"],
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding("user namespaces", "missing", str(error), "install util-linux and iproute2")
    if done.returncode == 0:
        return Finding("user namespaces", "ok", "with network, mount and pid namespaces and veth")
    switches = {name: _read(Path("/proc/sys") / name) for name in _NAMESPACE_SWITCHES}
    said = (done.stderr.strip().splitlines() or ["refused"])[-1]
    return Finding("user namespaces", "missing", said, namespace_fix(switches))


def namespace_fix(switches: Mapping[str, str]) -> str:
    """Return the fix for refused namespaces, given the values of the sysctls that can refuse them."""
    fixes = [fix for name, (bad, fix) in _NAMESPACE_SWITCHES.items() if switches.get(name) == bad]
    if fixes:
        return "as root: " + " && ".join(fixes)
    return "if a container forbids unshare, run it privileged, or run Sojourn on the host"


def realtime() -> Finding:
    """Try real-time priority; without it the host adds jitter that the run measures and gates."""
    done = subprocess.run(["chrt", "--rr", "20", "true"], capture_output=True, check=False)
    if done.returncode == 0:
        return Finding("real-time priority", "ok", "allowed")
    user = pwd.getpwuid(os.getuid()).pw_name
    fix = f"as root: echo '{user} - rtprio 20' > /etc/security/limits.d/sojourn.conf, then log in again; or run as root"
    return Finding("real-time priority", "note", "not permitted: expect a P99 of several ms of added delay", fix)


def congestion_control(available: str) -> Finding:
    """Judge `tcp_available_congestion_control`: the stand-in's origin uses the host's BBR by default."""
    if "bbr" in available.split():
        return Finding("BBR for the origin", "ok", available)
    fix = "as root: modprobe tcp_bbr (permanently: a line tcp_bbr in /etc/modules-load.d/); or --origin-cc=cubic"
    return Finding("BBR for the origin", "missing", available or "unknown", fix)


def clock(source: str) -> Finding:
    """Judge the kernel's clock source: a slow one delays every timestamp of a capture."""
    if source in _PRECISE_CLOCKS:
        return Finding("clock source", "ok", source)
    fix = "a slow clock source; boot a PC with clocksource=tsc, use the hypervisor's clock in a virtual machine"
    return Finding("clock source", "note", source or "unknown", fix)


def sleep_overshoots(count: int = 1000) -> list[float]:
    """Return the lateness in ms of each of `count` sleeps of 1 ms."""
    late = []
    for _ in range(count):
        begin = time.perf_counter()
        time.sleep(1e-3)
        late.append((time.perf_counter() - begin - 1e-3) * 1e3)
    return late


def jitter(overshoots: Sequence[float]) -> Finding:
    """Judge how late this host wakes a sleeping process, in ms; a run measures the same on a real path."""
    late = sorted(overshoots)
    p99 = late[min(int(len(late) * 0.99), len(late) - 1)]
    text = f"wake-ups are late by P50 {late[len(late) // 2]:.2f}, P99 {p99:.2f}, at most {late[-1]:.2f} ms"
    fix = "other programs or the hypervisor use the processor; stop them before measuring in real time"
    return Finding("host stalls", "ok" if p99 <= JITTER_LIMIT_MS else "note", text, fix)


def tools(users: Mapping[Tool, tuple[str, ...]]) -> Iterable[Finding]:
    """Yield a finding for every program, with its version, given the labs that use it."""
    for tool, labs in users.items():
        said = version(tool)
        yield Finding(tool.name, "ok" if said else "missing", said or "not found", labs=labs)


def caches(cache: Path) -> Iterable[Finding]:
    """Yield what has been built."""
    for name, folder in (
        ("kernel", "kernel"),
        ("guest root", "guest"),
        ("guest with browser", "desktop"),
        ("clip", "clip"),
        ("web player", "web"),
    ):
        done = built(cache / folder)
        state = f"built ({cache / folder})" if done else "not built yet"
        yield Finding(name, "ok" if done else "note", state, "sojourn build")


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _existing(folder: Path) -> Path:
    folder = folder.absolute()
    while not folder.exists():
        folder = folder.parent
    return folder


def _os_name() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return platform.system()
