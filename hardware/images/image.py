# SPDX-License-Identifier: Apache-2.0
"""A bootable Debian image of a router: Sojourn's kernel, a lab's packages, and the keys of the users who may log in."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sojourn.hardware.build_tool import call
from sojourn.hardware.images import disk, tc_objects
from sojourn.hardware.images.archive import SUITE, Archive
from sojourn.hardware.kernel_build.board import Board, BoardKernel, ensure_board_kernel
from sojourn.hardware.machine import cache
from sojourn.hardware.machine.cache import BuildError, ProgressCallback, unreported
from sojourn.hardware.machine.place import ENVIRONMENT

USERLAND = Path(__file__).parents[1] / "userland"
OVERLAY = USERLAND / "router"
"""Files of the image, relative to its root."""
PREPARE = USERLAND / "prepare-router"
PACKAGES = (
    "chrony", "dbus", "debian-archive-keyring", "e2fsprogs", "ethtool", "fdisk", "grub-pc-bin", "iperf3", "iproute2",
    "iputils-ping", "irtt", "kmod", "less", "nftables", "openssh-server", "procps", "systemd-resolved",
    "systemd-sysv", "tcpdump", "udev", "vim-tiny", "wireguard-tools",
)  # fmt: skip
TOOLS = ("mmdebstrap", "mke2fs", "debugfs", "ssh-keygen", "tar", "unshare")
APT_LINE = "apt-get install --no-install-recommends e2fsprogs mmdebstrap openssh-client uidmap util-linux"
SIZE = 768 << 20
"""Bytes of the image; the root partition grows to the end of the disk at the first boot."""
KEYS = "/root/.ssh/authorized_keys"
TC_OBJECTS = "usr/lib/x86_64-linux-gnu/tc"
"""The folder in which the image's tc looks for unknown queues."""
VERSIONS = "/usr/lib/sojourn/packages"
"""The image's list of packages, one name and version per line."""


@dataclass(frozen=True)
class Image:
    """An image that boots but admits no login: it has no keys yet."""

    disk: Path
    kernel: BoardKernel
    versions: dict[str, str]
    """Version of every package inside, by name."""
    digest: str


def ensure_image(
    board: Board,
    source: Path | None = None,
    progress: ProgressCallback | None = None,
    kernel_progress: ProgressCallback | None = None,
) -> Image:
    """Return the image of a board without keys, built now if it is not in the cache.

    Works as root, or as a plain user with subordinate ids (/etc/subuid).

    Args:
        source: a kernel tarball; by default the newest linux-source-7.x of the archive.
        progress, kernel_progress: receive the current step and the fraction done.

    Raises:
        BuildError: a tool is missing, the packages are not available, or the kernel cannot be built.
    """
    if missing := [tool for tool in TOOLS if not shutil.which(tool, path=ENVIRONMENT["PATH"])]:
        raise BuildError(f"not installed: {', '.join(missing)}; as root: {APT_LINE}", code="missing-program")
    kernel = ensure_board_kernel(board, source, kernel_progress)
    files = (PREPARE, *(path for path in OVERLAY.rglob("*") if path.is_file()))
    parts = [(str(file.relative_to(USERLAND)), file.read_bytes()) for file in files]
    inputs = (SUITE, PACKAGES, SIZE, board.name, board.console, kernel.digest)
    digest = cache.digest([*parts, *tc_objects.inputs(), ("asked", repr(inputs).encode())])
    report = progress or unreported
    entry = cache.build_once(
        cache.root() / "image" / digest, lambda scratch: _build(scratch, board, kernel, digest, report)
    )
    made = json.loads((entry / "versions.json").read_text())
    return Image(entry / "disk.img", kernel, made, digest)


def make_image(
    board: Board,
    output: Path,
    keys: Sequence[Path] = (),
    source: Path | None = None,
    progress: ProgressCallback | None = None,
    kernel_progress: ProgressCallback | None = None,
) -> Image:
    """Write the image of a board to `output`; root can log in with any of the public keys.

    Args:
        keys: files of public keys; by default the user's, ~/.ssh/id_*.pub.
        source, progress, kernel_progress: as in `ensure_image`.

    Raises:
        BuildError: before anything is built: a file holds no public key, or `output` exists; later as in
        ensure_image().
    """
    text = authorized_keys(keys or own_keys())
    if output.exists():
        raise BuildError(
            f"--output={output} exists; remove it, or give another file (dd writes it to a disk later)", code="exists"
        )
    if not output.absolute().parent.is_dir():
        raise BuildError(f"--output={output}: no such folder: {output.absolute().parent}", code="missing")
    image = ensure_image(board, source, progress, kernel_progress)
    with tempfile.TemporaryDirectory(prefix=".sojourn-", dir=output.absolute().parent) as name:
        copy, given = Path(name) / "disk.img", Path(name) / "keys"
        given.write_text(text)
        call(["cp", "--sparse=always", str(image.disk), str(copy)])
        _debugfs(copy, f"rm {KEYS}")
        _debugfs(copy, f'write "{given}" {KEYS}')
        for field in ("mode 0100600", "uid 0", "gid 0"):
            _debugfs(copy, f"sif {KEYS} {field}")
        if _debugfs(copy, f"cat {KEYS}") != text:  # debugfs always exits with 0
            raise BuildError(f"debugfs cannot write {KEYS} into the image")
        copy.rename(output)
    return image


def own_keys() -> list[Path]:
    """Return the user's public keys in ~/.ssh. Raises BuildError if there are none."""
    if keys := sorted((Path.home() / ".ssh").glob("id_*.pub")):
        return keys
    raise BuildError(
        "--ssh-key: no key to log in with: ~/.ssh/ has no id_*.pub; create one with `ssh-keygen`", code="missing"
    )


def authorized_keys(files: Sequence[Path]) -> str:
    """Return all public keys in the files. Raises BuildError that names the first file without one."""
    texts = []
    for file in files:
        try:
            text = file.read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise BuildError(f"--ssh-key={file}: cannot be read: {error}", code="unreadable-file") from error
        if "PRIVATE KEY" in text:
            raise BuildError(f"--ssh-key={file}: is a private key; give the public key {file}.pub", code="bad-key")
        known = subprocess.run(["ssh-keygen", "-l", "-f", str(file)], capture_output=True, check=False)
        if known.returncode:
            raise BuildError(f"--ssh-key={file}: no public key in OpenSSH format (ssh-ed25519 AAAA…)", code="bad-key")
        texts.append(text)
    return "\n".join(texts) + "\n"


def _build(scratch: Path, board: Board, kernel: BoardKernel, digest: str, report: ProgressCallback) -> None:
    signature = int(digest[:8], 16)
    words = f"root=PARTUUID={disk.part_uuid(signature)} rootwait ro console={board.console}"
    tar = scratch / "root.tar"
    files = _own_files(scratch, kernel)
    report(0.05, "fetching the image's packages")
    archive = Archive(cache.root() / "image-apt", (SUITE,))
    with archive.locked():
        archive.update()
        call([
            "mmdebstrap", "--variant=minbase", "--format=tar", "--quiet", f"--include={','.join(PACKAGES)}",
            '--aptopt=Acquire::Check-Valid-Until "false"', '--aptopt=Acquire::Languages "none"',
            '--aptopt=APT::Install-Recommends "false"', "--dpkgopt=force-unsafe-io",
            *(f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in ("doc", "info", "locale", "man")),
            "--dpkgopt=path-include=/usr/share/doc/*/copyright",
            f"--customize-hook=tar-in {shlex.quote(str(files))} /",
            f"--customize-hook=chroot \"$1\" sh /boot/prepare '{kernel.version}' '{words}'",
            f"--customize-hook=download /boot/grub/boot.img {shlex.quote(str(scratch))}/boot.img",
            f"--customize-hook=download /boot/grub/core.img {shlex.quote(str(scratch))}/core.img",
            f"--customize-hook=download {VERSIONS} {shlex.quote(str(scratch))}/versions",
            SUITE, str(tar), str(archive.sources),
        ])  # fmt: skip
    report(0.9, "making the filesystem")
    image = scratch / "disk.img"
    with image.open("wb") as file:
        file.truncate(SIZE)
    disk.filesystem(tar, image, disk.PARTITION)
    disk.assemble(image, (scratch / "boot.img").read_bytes(), (scratch / "core.img").read_bytes(), signature)
    versions = dict(line.split("\t", 1) for line in (scratch / "versions").read_text().splitlines())
    (scratch / "versions.json").write_text(json.dumps(versions, indent=1) + "\n")
    for leftover in (tar, files, *(scratch / name for name in ("boot.img", "core.img", "versions"))):
        leftover.unlink()
    report(1.0, "image ready")


def _own_files(scratch: Path, kernel: BoardKernel) -> Path:
    """Return a tar of the image's files other than Debian's packages, all owned by root."""
    shutil.copytree(OVERLAY, folder := scratch / "files")
    shutil.copytree(kernel.modules, folder / "usr", dirs_exist_ok=True)
    (folder / "boot").mkdir()
    shutil.copy(kernel.vmlinuz, folder / "boot/vmlinuz")
    shutil.copy(PREPARE, folder / "boot/prepare")
    (folder / TC_OBJECTS).mkdir(parents=True)
    tc_objects.install(folder)
    tar = scratch / "files.tar"
    call(["tar", "-C", str(folder), "--owner=0", "--group=0", "--numeric-owner", "--mode=u=rwX,go=rX",
           "-cf", str(tar), *sorted(path.name for path in folder.iterdir())])  # fmt: skip
    shutil.rmtree(folder)
    return tar


def _debugfs(image: Path, command: str) -> str:
    """Return debugfs's output of a command on the file system in the image."""
    return call(["debugfs", "-w", "-R", command, f"{image}?offset={disk.PARTITION}"])
