# SPDX-License-Identifier: Apache-2.0
"""What this machine can do for Sojourn and what is missing, with the fix for each (`sojourn doctor`)."""

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
from sojourn.hardware.machine.programs import Tool, find, install_command, version
from sojourn.hardware.simulation import WITH_BROWSER, SimulationError, check_memory, check_open_files, memory_bytes
from sojourn.harness.lab.machine import MEMORY
from sojourn.harness.lab.needs import built, missing, told

Verdict = Literal["ok", "note", "missing"]
REAL_TIME = ("virtual", *PHYSICAL)
"""The labs whose clock is this host's."""

#: 40 ms of a stalled host is two frames of video; P99 above this and most runs are void (see --jitter-gate).
JITTER_LIMIT_MS = 2.0
_CONGESTION_CONTROLS = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
_CLOCK = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")
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
    """One thing looked at: `missing` means that runs cannot work, `note` that they could work better."""

    subject: str
    verdict: Verdict
    found: str
    fix: str = ""
    labs: tuple[str, ...] = ()
    """The labs that it is about, where it is about some."""

    def stops(self, lab: str) -> bool:
        """Return whether runs in `lab` cannot work because of it."""
        return self.verdict == "missing" and lab in self.labs


def examine(
    cache: Path, results: Path, programs: Mapping[str, Sequence[Tool]], lab_file: Path | None = None
) -> tuple[list[Finding], dict[str, Finding]]:
    """Look at everything that some labs need; takes about three seconds and changes nothing outside of the cache.

    Args:
        programs: those that each lab needs (`sojourn.harness.lab.needs.needed`), by its name.
        lab_file: describes the physical labs; without it they are judged by this host alone.

    Returns what was found, and by the name of each lab whether it is ready.
    """
    users = {tool: tuple(lab for lab in programs if tool in programs[lab]) for of in programs.values() for tool in of}
    looks: list[tuple[Sequence[str], Callable[[], Iterable[Finding]]]] = [
        (LABS, lambda: machine(cache, results)),
        (("sim",), simulated_machine),
        (("sim", "virtual"), confined),
        (REAL_TIME, host_memory),
        (("virtual",), lambda: [namespaces(), congestion_control(_read(_CONGESTION_CONTROLS))]),
        (REAL_TIME, lambda: [realtime(), clock(_read(_CLOCK)), jitter(sleep_overshoots())]),
        (LABS, lambda: tools(users)),
        (("sim", "virtual"), lambda: caches(cache)),
    ]
    found = [
        replace(finding, labs=finding.labs or tuple(about))
        for about, look in looks
        if set(about) & set(programs)
        for finding in look()
    ]
    return found, {lab: judged(lab, found, missing(of), lab_file) for lab, of in programs.items()}


def judged(lab: str, findings: Iterable[Finding], absent: Sequence[Tool], lab_file: Path | None = None) -> Finding:
    """Return whether `lab` is ready, given the findings and the programs that are absent, with all fixes in a line."""
    names = {tool.name for tool in absent}
    wrong = [told(absent)] if absent else []
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
    few = "two cores carry the lab, browser and recorder; with fewer, runs in real time are invalid"
    yield replace(_at_least("cores", cores, 2, "", few), labs=REAL_TIME)
    to_build = 6.0 if not built(cache / "kernel") else 0.1
    for name, folder, need in (("cache disk", cache, to_build), ("results disk", results, 1.0)):
        free = shutil.disk_usage(_existing(folder)).free / 1e9
        yield _at_least(name, free, need, f"GB free for {folder}", "free some space, or put it elsewhere")


def simulated_machine() -> Iterable[Finding]:
    """Yield whether a simulated machine would find its memory and its open files."""
    try:
        check_memory(MEMORY)
        check_open_files(WITH_BROWSER)
    except SimulationError as short:
        yield Finding("simulated machine", "missing", str(short))
    else:
        yield Finding("simulated machine", "ok", f"{memory_bytes(MEMORY) >> 20} MB of memory are free for it")


def confined() -> Iterable[Finding]:
    """Yield what keeps machines from this host's files; its program is compiled into the cache, if need be."""
    try:
        yield Finding("confinement", "ok", f"by {confinement()}")
    except (ConfinementError, BuildError) as refused:
        yield Finding("confinement", "missing", str(refused))


def host_memory() -> Iterable[Finding]:
    """Yield findings about the memory that nodes and a browser of this host need."""
    more = "close something; three nodes and Chromium need it"
    yield _at_least("memory", available_bytes() / 1e9, 2.5, "GB available", more)
    shm = shutil.disk_usage("/dev/shm").total if Path("/dev/shm").is_dir() else 0
    yield _at_least("/dev/shm", shm / 1e6, 256, "MB", "mount it bigger (containers: --shm-size=1g); Chromium needs it")


def _at_least(subject: str, value: float, least: float, unit: str, fix: str) -> Finding:
    verdict: Verdict = "ok" if value >= least else "missing"
    figure = f"{value:.4g}" if value < 1000 else f"{value:.0f}"
    return Finding(subject, verdict, f"{figure} {unit}".strip(), f"at least {least:g}: {fix}")


def namespaces() -> Finding:
    """Try what a lab does: user, network, mount and pid namespaces with a veth pair in them."""
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
    except OSError as error:
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
    return "a container that forbids unshare? run it privileged, or run Sojourn on the host"


def realtime() -> Finding:
    """Try real-time priority; without it the host adds jitter that the run measures and gates."""
    done = subprocess.run(["chrt", "--rr", "20", "true"], capture_output=True, check=False)
    if done.returncode == 0:
        return Finding("real-time priority", "ok", "allowed")
    user = pwd.getpwuid(os.getuid()).pw_name
    fix = f"as root: echo '{user} - rtprio 20' > /etc/security/limits.d/sojourn.conf, then log in again; or run as root"
    return Finding("real-time priority", "note", "not allowed: expect P99 of some ms of added delay", fix)


def congestion_control(available: str) -> Finding:
    """Judge `tcp_available_congestion_control`: the stand-in's origin uses the host's BBR by default."""
    if "bbr" in available.split():
        return Finding("BBR for the origin", "ok", available)
    fix = "as root: modprobe tcp_bbr (for good: a line tcp_bbr in /etc/modules-load.d/); or --origin-cc=cubic"
    return Finding("BBR for the origin", "missing", available or "unknown", fix)


def clock(source: str) -> Finding:
    """Judge the kernel's clock source: a slow one costs every time stamp of a capture."""
    if source in _PRECISE_CLOCKS:
        return Finding("clock source", "ok", source)
    fix = "a slow clock source; on a PC boot with clocksource=tsc, in a virtual machine choose its own clock"
    return Finding("clock source", "note", source or "unknown", fix)


def sleep_overshoots(count: int = 1000, interval: float = 1e-3) -> list[float]:
    """Return by how many ms each of `count` sleeps of `interval` seconds came too late."""
    late = []
    for _ in range(count):
        begin = time.perf_counter()
        time.sleep(interval)
        late.append((time.perf_counter() - begin - interval) * 1e3)
    return late


def jitter(overshoots: Sequence[float]) -> Finding:
    """Judge how late this host wakes a sleeper, in ms; a run measures the same on a real path."""
    late = sorted(overshoots)
    p99 = late[min(int(len(late) * 0.99), len(late) - 1)]
    text = f"a sleeper wakes P50 {late[len(late) // 2]:.2f}, P99 {p99:.2f}, at most {late[-1]:.2f} ms late"
    fix = "something else uses the processor, or the hypervisor takes it away; stop it before measuring in real time"
    return Finding("host stalls", "ok" if p99 <= JITTER_LIMIT_MS else "note", text, fix)


def tools(users: Mapping[Tool, tuple[str, ...]]) -> Iterable[Finding]:
    """Yield a finding for every program, with its version, given the labs that use it."""
    for tool, labs in users.items():
        said = version(tool)
        yield Finding(tool.name, "ok" if said else "missing", said or "not found", labs=labs)  # one command has all


def caches(cache: Path) -> Iterable[Finding]:
    """Yield what is built already."""
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
