# SPDX-License-Identifier: Apache-2.0
"""A bulk host as users have it: Debian with Debian's kernel, TCP Prague by DKMS or BPF; a PC that QEMU emulates."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from sojourn.hardware.images import disk
from sojourn.hardware.images.archive import SUITE, Archive
from sojourn.hardware.kernel_build import kbuild, kconfig
from sojourn.hardware.machine import cache
from sojourn.hardware.machine.place import LOCAL
from tests.lab.qemu import TOOL
from tests.lab.simulated import NETWORK

PACKAGES = (
    "bpftool", "dkms", "ethtool", "initramfs-tools", "iperf3", "iproute2", "kmod", "linux-headers-amd64",
    "linux-image-amd64", "nftables", "procps", "tcpdump",
)  # fmt: skip
SIZE = 3 << 30
BPF = kconfig.FRAGMENTS / "bpf"
# Prague is built as docs/hardware.md says. The initramfs holds only what finds the root: each boot unpacks it.
PREPARE = r"""#!/bin/sh
set -e
release=$(cd /lib/modules && ls)
dkms install /srv/prague -k "$release"
echo MODULES=list >/etc/initramfs-tools/conf.d/few
printf '%s\n' virtio_pci virtio_blk ext4 >>/etc/initramfs-tools/modules
mkinitramfs -o /boot/initrd "$release"
ln /boot/vmlinuz-* /boot/vmlinuz
"""
# First process. The job comes on the second disk and what is left of it goes onto the third.
INIT = r"""#!/bin/sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t bpf bpf /sys/fs/bpf
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /tmp
mkdir /run/netns /tmp/job
cd /tmp/job
tar -xf /dev/vdb
./run >out 2>err
echo "$?" >status
tar -cf /dev/vdc .
sync
echo o >/proc/sysrq-trigger
sleep 60
"""
LOAD = {
    "dkms": "modprobe tcp_ect1\n",
    "bpf": "bpftool struct_ops register tcp_prague.bpf.o >/dev/null\n",
}
"""Script: Prague before there is a network."""
EGRESS = {
    "dkms": "",
    "bpf": """tc -n sender qdisc add dev eth0 clsact
tc -n sender filter add dev eth0 egress bpf direct-action object-file ect1.bpf.o section tc
""",
}
"""Script: ECT(1) once there is one."""


@dataclass
class Stock:
    """Runs shell scripts in the network of `Simulated`, on a machine that is booted for each."""

    entry: Path
    folder: Path
    variant: str
    """How Prague comes to be there: a key of LOAD."""

    def run(self, script: str, timeout: float = 1200) -> Path:
        """Run `script` after the network is up; returns the folder with what it wrote."""
        folder = self.folder / f"run-{len(list(self.folder.iterdir()))}"
        folder.mkdir()
        (folder / "run").write_text(f"#!/bin/sh\nset -e\n{LOAD[self.variant]}{NETWORK}{EGRESS[self.variant]}{script}")
        (folder / "run").chmod(0o755)
        for file in BPF.glob("*.o"):
            shutil.copy(file, folder)
        job, result = self.folder / f"{folder.name}.job", self.folder / f"{folder.name}.result"
        subprocess.run(["tar", "-C", folder, "-cf", job, "."], check=True)
        with result.open("wb") as file:
            file.truncate(64 << 20)
        drives = (f"{self.entry / 'root.img'},snapshot=on", str(job), str(result))
        console = folder / "console"
        command = [
            TOOL, "-no-user-config", "-nodefaults", "-display", "none", "-machine", "q35",
            # Its clock counts instructions and skips idle time, so that the load of the host cannot be measured.
            "-accel", "tcg,thread=single", "-icount", "shift=0,sleep=off", "-rtc", "clock=vm", "-cpu", "max",
            "-m", "1G", "-no-reboot", "-serial", f"file:{console}",
            "-kernel", str(self.entry / "vmlinuz"), "-initrd", str(self.entry / "initrd"),
            "-append", "root=/dev/vda rw console=ttyS0 panic=-1 init=/sbin/job mitigations=off",
            *(part for drive in drives for part in ("-drive", f"file={drive},format=raw,if=virtio,cache=unsafe")),
        ]  # fmt: skip
        subprocess.run([*LOCAL.prefix, *command], stdin=subprocess.DEVNULL, check=True, timeout=timeout)
        if subprocess.run(["tar", "-C", folder, "-xf", result], capture_output=True).returncode:
            pytest.fail(f"the machine ended early: {console.read_text(errors='replace')[-2000:]}")
        if (folder / "status").read_text().strip() != "0":
            pytest.fail(f"{folder}: {(folder / 'err').read_text()[-2000:]}")
        return folder


def ensure_stock() -> Path:
    """The machine's kernel, initramfs and disk, put together now if the cache does not have them."""
    files = [kconfig.FRAGMENTS / name for name in (*kbuild.MODULE_SOURCES, "dkms.conf")]
    parts = [(path.name, path.read_bytes()) for path in files]
    digest = cache.digest([*parts, ("asked", repr((SUITE, PACKAGES, SIZE, PREPARE, INIT)).encode())])
    return cache.build_once(cache.root() / "stock" / digest, lambda scratch: _build(scratch, files))


def _build(scratch: Path, files: list[Path]) -> None:
    tar, own = scratch / "root.tar", scratch / "own"
    for folder in ("srv/prague", "sbin"):
        (own / folder).mkdir(parents=True)
    for file in files:
        shutil.copy(file, own / "srv/prague")
    for name, text in (("srv/prepare", PREPARE), ("sbin/job", INIT)):
        (own / name).write_text(text)
        (own / name).chmod(0o755)
    archive = Archive(cache.root() / "image-apt", (SUITE,))
    with archive.locked():
        archive.update()
        kbuild.call([
            "env", "INITRD=No",  # one initramfs, by PREPARE
            "mmdebstrap", "--variant=minbase", "--format=tar", "--quiet", f"--include={','.join(PACKAGES)}",
            '--aptopt=Acquire::Check-Valid-Until "false"', '--aptopt=APT::Install-Recommends "false"',
            "--dpkgopt=force-unsafe-io",
            f"--customize-hook=copy-in {own}/srv /", f"--customize-hook=copy-in {own}/sbin/job /usr/sbin",
            '--customize-hook=chroot "$1" /srv/prepare',
            f"--customize-hook=download /boot/vmlinuz {scratch}/vmlinuz",
            f"--customize-hook=download /boot/initrd {scratch}/initrd",
            SUITE, str(tar), str(archive.sources),
        ], scratch / "log")  # fmt: skip
    image = scratch / "root.img"
    with image.open("wb") as file:
        file.truncate(SIZE)
    disk.filesystem(tar, image, 0)
    tar.unlink()
    shutil.rmtree(own)
