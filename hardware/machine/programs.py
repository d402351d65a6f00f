# SPDX-License-Identifier: Apache-2.0
"""The programs of this host that a run uses: their paths and versions."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from sojourn.hardware.machine.plugins import packages

#: The "version" that lists a processor's features, separated by blanks.
FLAGS = "processor flags"
#: Folders of system programs that an ordinary user's PATH does not include on Debian.
_PATH = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/local/sbin", "/usr/sbin", "/sbin"])


@dataclass(frozen=True)
class Tool:
    """A program, its Debian package, and the arguments that print its version."""

    name: str
    package: str
    version_arguments: tuple[str, ...] = ("--version",)


TOOLS = (
    Tool("chromium", "chromium"),
    Tool("chromedriver", "chromium-driver"),
    Tool("Xvfb", "xvfb", ()),
    Tool("obs", "obs-studio"),
    Tool("ffmpeg", "ffmpeg", ("-version",)),
    Tool("caddy", "caddy", ("version",)),
    Tool("iperf3", "iperf3"),
    Tool("irtt", "irtt", ("version",)),
    Tool("tcpdump", "tcpdump"),
    Tool("dumpcap", "tshark"),
    Tool("ip", "iproute2", ("-V",)),
    Tool("ethtool", "ethtool"),
    Tool("nft", "nftables"),
    Tool("pasta", "passt", ()),  # Debian's prints none
    Tool("ssh", "openssh-client", ("-V",)),
    Tool("zstd", "zstd"),
    Tool("gcc", "gcc"),
    Tool("make", "make"),
    Tool("mmdebstrap", "mmdebstrap"),
    Tool("unshare", "util-linux"),
    Tool("git", "git"),
)
"""The programs whose versions are in a run's manifest."""
FURTHER = (
    Tool("ping", "iputils-ping", ("-V",)),
    Tool("ssh-keygen", "openssh-client", ()),
    Tool("bc", "bc"),
    Tool("bison", "bison"),
    Tool("flex", "flex"),
    Tool("xz", "xz-utils"),
)
"""Further programs that a lab needs, or that build its kernel and guest."""

_VERSION = re.compile(r"\d+(?:\.\d+)+[\w.~+-]*")


def find(name: str) -> str | None:
    """Return the path of the program `name`, looked for in PATH and in the sbin folders, or None."""
    return shutil.which(name, path=_PATH)


def install_command(tools: Iterable[Tool]) -> str:
    """Return the one command that installs the packages of `tools`."""
    packages = " ".join(sorted({tool.package for tool in tools}))
    return f"{'' if os.geteuid() == 0 else 'sudo '}apt-get install --no-install-recommends {packages}"


def version(tool: Tool) -> str | None:
    """Return the version that `tool` prints, else its package's, or None when the tool is missing."""
    path = find(tool.name)
    if path is None:
        return None
    printed = _printed([path, *tool.version_arguments], subprocess.STDOUT) if tool.version_arguments else ""
    if match := _VERSION.search(printed):
        return match[0]
    return _package_version(tool.package) or "unknown"


def _package_version(package: str) -> str | None:
    if not (query := find("dpkg-query")):
        return None
    return _printed([query, "-W", "-f=${Version}", package]).strip() or None


def _printed(command: list[str], errors: int = subprocess.DEVNULL) -> str:
    """Return what a command prints; nothing if it does not end within 30 s."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=errors, text=True, timeout=30, check=False)
    except subprocess.TimeoutExpired:
        return ""
    return done.stdout


def processor() -> dict[str, str]:
    """Return the processor's model and features (FLAGS), on which a program's instructions may depend."""
    facts: dict[str, str] = {}
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, text = line.partition(":")
        facts.setdefault(name.strip(), text.strip())
    model = facts.get("model name", platform.machine())
    return {"processor": model, FLAGS: " ".join(sorted(facts.get("flags", facts.get("Features", "")).split()))}


def package_versions() -> dict[str, str]:
    """Return the versions of other packages that add something, by their names in a manifest."""
    return {f"package {package.name}": package.version for package in packages()}


def host_versions() -> dict[str, str]:
    """Return the versions of the host's kernel, Python and every tool found, for the manifest of a run."""
    versions = {"host kernel": platform.release(), "python": sys.version.split()[0], **processor()}
    versions |= package_versions()
    return versions | {tool.name: text for tool in TOOLS if (text := version(tool))}
