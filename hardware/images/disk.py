# SPDX-License-Identifier: Apache-2.0
"""A disk for a PC's BIOS: master boot record, GRUB behind it, one ext4 partition. Needs no root and no loop device."""

from __future__ import annotations

import os
import struct
from pathlib import Path

from sojourn.hardware import build_tool
from sojourn.hardware.machine.cache import BuildError

SECTOR = 512
PARTITION = 2048 * SECTOR
"""Byte offset of the partition, on every disk a whole number of blocks."""
_TABLE = 440
"""Offset of signature and partition table, after the boot code."""
_LINUX = 0x83


def master_boot_record(boot_code: bytes, signature: int, size: int) -> bytes:
    """Return the first sector: GRUB's boot.img with a table of one bootable Linux partition of `size` bytes at
    PARTITION.

    `signature` is the 32-bit number by which the kernel's root=PARTUUID= names the disk.
    """
    beyond_chs = b"\xfe\xff\xff"
    entry = struct.pack("<B3sB3sII", 0x80, beyond_chs, _LINUX, beyond_chs, PARTITION // SECTOR, size // SECTOR)
    return boot_code[:_TABLE] + struct.pack("<IH", signature, 0) + entry + bytes(48) + b"\x55\xaa"


def part_uuid(signature: int) -> str:
    """Return the partition's PARTUUID in the kernel's notation."""
    return f"{signature:08x}-01"


def assemble(disk: Path, boot_code: bytes, core: bytes, signature: int) -> None:
    """Make `disk` bootable: it already holds a file system at PARTITION, and nothing before it.

    Args:
        boot_code: GRUB's boot.img; it loads the following sectors.
        core: GRUB's core.img.

    Raises:
        BuildError: GRUB does not fit in front of the partition.
    """
    if len(core) > PARTITION - SECTOR:
        raise BuildError(
            f"the boot loader has {len(core)} bytes; {PARTITION - SECTOR} fit in front of the partition",
            code="too-large",
        )
    with disk.open("r+b") as out:
        out.write(master_boot_record(boot_code, signature, disk.stat().st_size - PARTITION))
        out.write(core)


def filesystem(tar: Path, disk: Path, offset: int) -> None:
    """Create an ext4 file system with the content of the tar, from byte `offset` of `disk` to its end.

    Works as root, or as a plain user with subordinate ids, as root of a user namespace. Raises BuildError with the
    tools' output.
    """
    script = """set -e
mkdir "$2"
tar -C "$2" --numeric-owner --exclude='./dev/*' -xf "$1"
mke2fs -q -F -t ext4 -L sojourn -O '^orphan_file,^metadata_csum_seed' -m 1 -E "offset=$4" -d "$2" "$3" "$5"k
rm -r "$2"
"""
    enter = [] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--map-auto"]
    root = disk.with_name(f"{disk.name}.root")
    kilobytes = (disk.stat().st_size - offset) >> 10
    command = [*enter, "sh", "-c", script, "sh", str(tar), str(root), str(disk), str(offset), str(kilobytes)]
    done = build_tool.ended(command)
    if done.returncode:
        raise BuildError(f"{disk}: cannot create the file system: {done.stderr.strip()[-300:]}")
