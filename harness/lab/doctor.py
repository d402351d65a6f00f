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
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from hardware.machine.memory import available_bytes
from hardware.machine.programs import TOOLS, Tool, find, version

Verdict = Literal["ok", "note", "missing"]

#: 40 ms of a stalled host is two frames of video; P99 above this and most runs are void (see --jitter-gate).
JITTER_LIMIT_MS = 2.0
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


def examine(cache: Path, results: Path) -> list[Finding]:
    """Look at everything; takes about three seconds. Changes nothing on the machine."""
    return [
        *machine(cache, results),
        namespaces(),
        realtime(),
        congestion_control(_read(Path("/proc/sys/net/ipv4/tcp_available_congestion_control"))),
        clock(_read(Path("/sys/devices/system/clocksource/clocksource0/current_clocksource"))),
        jitter(sleep_overshoots()),
        *tools(),
        *caches(cache),
    ]


def machine(cache: Path, results: Path) -> Iterable[Finding]:
    """Yield findings about cores, memory, shared memory and disk."""
    cores = len(os.sched_getaffinity(0))
    yield Finding("system", "ok", f"{_os_name()}, Linux {platform.release()}, {platform.machine()}")
    yield _at_least("cores", cores, 2, "", "two cores carry the lab, browser and recorder; fewer make void runs")
    yield _at_least(
        "memory",
        available_bytes() / 1e9,
        2.5,
        "GB available",
        "close something; three nodes and Chromium need it",
    )
    shm = shutil.disk_usage("/dev/shm").total if Path("/dev/shm").is_dir() else 0
    yield _at_least("/dev/shm", shm / 1e6, 256, "MB", "mount it bigger (containers: --shm-size=1g); Chromium needs it")
    for name, folder, need in (("cache disk", cache, 6.0), ("results disk", results, 1.0)):
        free = shutil.disk_usage(_existing(folder)).free / 1e9
        yield _at_least(name, free, need, f"GB free for {folder}", "free some space, or put it elsewhere")


def _at_least(subject: str, value: float, least: float, unit: str, fix: str) -> Finding:
    verdict: Verdict = "ok" if value >= least else "missing"
    return Finding(subject, verdict, f"{value:.4g} {unit}".strip(), f"at least {least:g}: {fix}")


def namespaces() -> Finding:
    """Try what a lab does: user, network, mount and pid namespaces with a veth pair in them."""
    attempt = ["unshare", "--user", "--map-root-user", "--net", "--mount", "--pid", "--fork", "--mount-proc"]
    ip = find("ip") or "ip"
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


def tools(wanted: Iterable[Tool] = TOOLS, ask: Callable[[Tool], str | None] = version) -> Iterable[Finding]:
    """Yield a finding for every program, with its version."""
    for tool in wanted:
        said = ask(tool)
        fix = f"as root: apt-get install --no-install-recommends {tool.package}"
        yield Finding(tool.name, "ok" if said else "missing", said or "not found", fix)


def caches(cache: Path) -> Iterable[Finding]:
    """Yield what is built already."""
    for name, folder in (
        ("kernel", "kernel"),
        ("guest root", "guest"),
        ("clip", "clip"),
        ("web player", "web"),
    ):
        built = [entry for entry in (cache / folder).glob("*") if not entry.name.startswith(".")]
        state = f"built ({cache / folder})" if built else "not built yet"
        yield Finding(name, "ok" if built else "note", state, "sojourn build")


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
