# SPDX-License-Identifier: Apache-2.0
"""The userland of the virtual nodes: Debian packages in a folder that all nodes mount read-only."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sojourn.hardware.build_tool import call
from sojourn.hardware.images import tc_objects
from sojourn.hardware.images.archive import SUITE, current
from sojourn.hardware.images.sharing import share_with_others
from sojourn.hardware.images.slim import remove
from sojourn.hardware.machine import cache
from sojourn.hardware.machine.cache import BuildError, ProgressCallback, unreported
from sojourn.hardware.machine.place import ENVIRONMENT

INIT = Path(__file__).parents[1] / "userland" / "init"
PACKAGES = (
    "base-files", "busybox", "coreutils", "dash", "dropbear-bin", "ethtool", "grep", "hostname", "iperf3",
    "iproute2", "iputils-ping", "irtt", "mount", "nftables", "openvpn", "procps", "sed", "tcpdump", "util-linux",
    "wireguard-tools",
)  # fmt: skip
TOOLS = ("mmdebstrap",)
APT_LINE = "apt-get install --no-install-recommends mmdebstrap openssh-client"
MADE = "2"
"""Change this whenever what `extract` does changes."""
#: What no program of a node or a run opens.
_UNREAD = (
    *(f"usr/share/{name}" for name in ("bug", "doc", "doc-base", "info", "lintian", "locale", "man")),
    *("usr/include", "usr/lib/systemd", "usr/lib/*/systemd"),  # the first process is Sojourn's
)
_KEY = "ssh_key"
HOST_ALIAS = "sojourn-node"
"""The HostKeyAlias in `known_hosts` for the host key that all nodes share."""
ETC = {
    # tcpdump insists on becoming a user of its own name; here that is root, who may write where it is told to.
    "passwd": "root:x:0:0:root:/root:/bin/sh\n"
    "tcpdump:x:0:0:tcpdump:/root:/bin/sh\n"
    "nobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n",
    "group": "root:x:0:\ntty:x:5:\nnogroup:x:65534:\n",
    "shells": "/bin/sh\n",
    "hosts": "127.0.0.1 localhost\n",
    "fstab": "proc /proc proc defaults 0 0\n"
    "sysfs /sys sysfs defaults 0 0\n"
    "devpts /dev/pts devpts defaults 0 0\n"
    "tmpfs /run tmpfs mode=1777 0 0\n"
    "tmpfs /tmp tmpfs mode=1777 0 0\n"
    "tmpfs /var tmpfs mode=1777 0 0\n"
    # dropbear takes keys only from a home that nobody else can write to.
    "tmpfs /root tmpfs mode=700 0 0\n"
    "tmpfs /dev/shm tmpfs mode=1777 0 0\n",
}
# A moment later, so that the ssh session that asked for it ends before the node does.
POWEROFF = "#!/bin/sh\n(sleep 0.2; exec busybox poweroff -f) </dev/null >/dev/null 2>&1 &\n"


@dataclass(frozen=True)
class Guest:
    """A built userland for nodes."""

    root: Path
    """The folder that the nodes mount as their root."""
    ssh_key: Path
    """Private key (OpenSSH format, mode 0600) with which root can log in to every node."""
    known_hosts: Path
    """known_hosts file with the nodes' host key under the name HOST_ALIAS."""
    versions: dict[str, str]
    """Version of every package inside, by name."""
    digest: str


def ensure_guest(progress: ProgressCallback | None = None) -> Guest:
    """Return the userland, assembled now if it is not in the cache. Works as root and as a plain user.

    Raises:
        BuildError: a tool is missing, or the packages are not available.
    """
    parts = [("init", INIT.read_bytes()), ("packages", " ".join((SUITE, *PACKAGES)).encode())]
    parts += [("etc", repr((ETC, POWEROFF)).encode()), *tc_objects.inputs()]
    parts.append(("made", MADE.encode()))
    digest = cache.digest(parts)
    report = progress or unreported
    entry = cache.build_once(cache.root() / "guest" / digest, lambda scratch: _build(scratch, report), secret=[_KEY])
    versions = json.loads((entry / "versions.json").read_text())
    return Guest(entry / "root", entry / _KEY, entry / "known_hosts", versions, digest)


def _build(scratch: Path, report: ProgressCallback) -> None:
    if not shutil.which("ssh-keygen"):
        raise BuildError(f"not installed: ssh-keygen; as root: {APT_LINE}", code="missing-program")
    root = scratch / "root"
    versions = extract(root, PACKAGES, report)
    report(0.9, "preparing the guest")
    prepare(root)
    _keys(scratch, root)
    share_with_others(root)
    cache.normalise_mtimes(root)  # as a userland with a screen, which shares files
    (scratch / "versions.json").write_text(json.dumps(versions, indent=1) + "\n")
    report(1.0, "guest ready")


def extract(root: Path, packages: Sequence[str], report: ProgressCallback) -> dict[str, str]:
    """Unpack `packages` of SUITE and their dependencies to `root`; return all versions by name.

    Works as root and as a plain user. Raises BuildError.
    """
    if missing := [tool for tool in TOOLS if not shutil.which(tool)]:
        raise BuildError(f"not installed: {', '.join(missing)}; as root: {APT_LINE}", code="missing-program")
    report(0.0, "reading the package lists")
    archive = current((SUITE,))
    report(0.2, "fetching the guest's packages")
    # Extraction runs no maintainer scripts, so chrootless is safe, and needs neither subuids nor root.
    call([
        "mmdebstrap", "--variant=extract", "--mode=chrootless", "--format=directory", "--quiet",
        "--skip=check/chrootless,cleanup/apt,check/empty", f"--include={','.join(packages)}",
        '--aptopt=Acquire::Check-Valid-Until "false"', '--aptopt=Acquire::Languages "none"',
        # Its apt then fetches no list that is still current.
        f'--setup-hook=cp -R {shlex.quote(str(archive.lists))}/. "$1/var/lib/apt/lists/"',
        SUITE, str(root), str(archive.sources),
    ], env={**ENVIRONMENT, "TMPDIR": str(root.parent)})  # fmt: skip
    versions = dict(sorted(_name_version(deb.name) for deb in (root / "var/cache/apt/archives").glob("*.deb")))
    if absent := [name for name in packages if name not in versions]:
        raise BuildError(f"missing in the guest: {', '.join(absent)}", code="missing")
    cache.remove_tree(root / "var")
    remove(root, _UNREAD)
    return {f"archive of {suite}": f"{date:%Y-%m-%d}" for suite, date in archive.dates().items()} | versions


def in_root(root: Path, program: str) -> list[str]:
    """Return the argv that runs a program of `root` on this host with the root's libc, which may be newer."""
    library = next(root.glob("usr/lib/*/libc.so.6")).parent
    # Some libraries find others in folders of their own, by absolute paths.
    own = sorted({path.parent for path in library.glob("*/lib*.so*")})
    loader = next(root.glob("usr/lib*/ld-linux-*.so.*"))
    return [str(loader), "--library-path", ":".join(map(str, (library, *own))), str(root / program)]


def _name_version(deb: str) -> tuple[str, str]:
    """Return package and version from the name of a package file; apt writes a colon as %3a."""
    name, version, _architecture = deb.split("_")
    return name, version.replace("%3a", ":")


def prepare(root: Path) -> None:
    """Do what packages leave to their scripts (merged /usr, accounts); add Sojourn's init, poweroff and tc objects."""
    for name in ("bin", "sbin", "lib", "lib64"):
        if not (root / name).exists():
            (root / name).symlink_to(f"usr/{name}")
    if not (root / "usr/bin/sh").exists():
        (root / "usr/bin/sh").symlink_to("dash")
    for name in (
        "dev",
        "proc",
        "sys",
        "run",
        "tmp",
        "var",
        "root",
        "job",
        "evidence",
        "cache",
        "sojourn",
        "etc/sojourn",
    ):
        (root / name).mkdir(parents=True, exist_ok=True)
    for name, text in ETC.items():
        (root / "etc" / name).write_text(text)
    shutil.copy(INIT, root / "init")
    (root / "usr/sbin/poweroff").write_text(POWEROFF)
    for name in ("init", "usr/sbin/poweroff"):
        (root / name).chmod(0o755)
    tc_objects.install(root)


def _keys(scratch: Path, root: Path) -> None:
    """Create keys for this cache only: one to log in with, and one host key for all nodes."""
    key = scratch / _KEY
    call(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "sojourn", "-f", str(key)])
    shutil.move(key.with_suffix(".pub"), root / "etc/sojourn/authorized_keys")
    # dropbear has its own key format.
    printed = call([*in_root(root, "usr/bin/dropbearkey"), "-t", "ed25519", "-f", str(root / "etc/sojourn/host_key")])
    public = next(line for line in printed.splitlines() if line.startswith("ssh-ed25519 "))
    (scratch / "known_hosts").write_text(f"{HOST_ALIAS} {' '.join(public.split()[:2])}\n")
