# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import struct
from pathlib import Path

from sojourn.hardware.images import slim


def test_what_nothing_reads_is_removed_and_all_else_stays(tmp_path: Path) -> None:
    for name in (
        "usr/lib/systemd/systemd",
        "usr/lib/x86/systemd/libshared.so",
        "usr/lib/x86/libLLVM.so.21",
        "usr/lib/x86/libc.so",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "usr/lib/x86/libLLVM.so").symlink_to("libLLVM.so.21")
    slim.remove(tmp_path, ("usr/lib/systemd", "usr/lib/*/systemd", "usr/lib/*/libLLVM.so*", "usr/share/none"))
    assert [str(it.relative_to(tmp_path)) for it in tmp_path.rglob("*") if not it.is_dir()] == ["usr/lib/x86/libc.so"]


def elf(loaded: bytes, symbols: bytes) -> bytes:
    """An ELF file of one segment, with what a linker puts after it."""
    offset = 64 + 56
    segment = struct.pack("<IIQQQQQQ", 1, 5, offset, 0, 0, len(loaded), len(loaded), 4096)
    header = struct.pack(
        "<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01", 3, 62, 1, 0, 64, offset + len(loaded), 0, 64, 56, 1, 64, 3, 2
    )
    return header + segment + loaded + symbols


def test_only_what_follows_the_last_segment_is_cut(tmp_path: Path) -> None:
    (library := tmp_path / "in" / "library.so").parent.mkdir()
    library.write_bytes(elf(b"code" * 1000, b"symbol" * 20_000))
    library.chmod(0o755)
    slim.slim(tmp_path)
    expected = elf(b"code" * 1000, b"")
    sections = (slice(40, 48), slice(60, 64))  # their place, number and names
    content = library.read_bytes()
    assert content[64:] == expected[64:] and library.stat().st_mode & 0o777 == 0o755
    assert all(not any(content[part]) for part in sections)
    assert (content[:40], content[48:60]) == (expected[:40], expected[48:60])
    assert [path.name for path in library.parent.iterdir()] == ["library.so"]


def test_what_saves_little_or_is_no_elf_file_stays(tmp_path: Path) -> None:
    contents = {"small.so": elf(b"code", b"symbol"), "text": b"a" * 200_000, "empty": b"", "short": b"\x7fELF\x02\x01"}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    slim.slim(tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == contents


def test_test_suites_go_and_modules_for_tests_stay(tmp_path: Path) -> None:
    for name in ("numpy/tests/a.py", "scipy/special/tests/b.py", "scipy/stats/_x/tests/c.py", "numpy/testing/d.py"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).touch()
    slim.slim(tmp_path)
    assert [path.name for path in tmp_path.rglob("*.py")] == ["d.py"]
