# SPDX-License-Identifier: Apache-2.0
"""A packed file that somebody else made costs no more than its size allows, and is named."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from sojourn.scoring.packets.latency import ProbeError, read_irtt
from sojourn.scoring.packets.pcapng import CaptureError, chunks
from sojourn.scoring.packets.unpacked import unpacked


@pytest.mark.parametrize(
    ("name", "pack", "reader", "error"),
    [
        ("client.pcapng.zst", zstandard.compress, lambda file: list(chunks(file)), CaptureError),
        ("irtt.json.gz", gzip.compress, read_irtt, ProbeError),
    ],
)
def test_a_bomb_is_refused_before_it_is_large(
    tmp_path: Path,
    name: str,
    pack: Callable[[bytes], bytes],
    reader: Callable[[Path], object],
    error: type[Exception],
) -> None:
    file = tmp_path / name
    file.write_bytes(pack(bytes(65 << 20)))
    with pytest.raises(error, match=rf"{name} .*it unpacks to more than 64 MiB"):
        reader(file)
    file.write_bytes(pack(bytes(64 << 20)))
    assert sum(map(len, unpacked(file))) == 64 << 20


@pytest.mark.parametrize(("name", "pack"), [("a.zst", zstandard.compress), ("a.gz", gzip.compress)])
def test_a_large_file_may_unpack_to_a_hundred_times_its_size(
    tmp_path: Path, name: str, pack: Callable[[bytes], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sojourn.scoring.packets.unpacked._LEAST", 0)
    file = tmp_path / name
    text = b"".join(b"probe %d of many\n" % number for number in range(100_000))
    file.write_bytes(pack(text))
    assert b"".join(unpacked(file)) == text
    file.write_bytes(pack(bytes(1 << 20)))
    with pytest.raises(ValueError, match="as no recording of its size does"):
        list(unpacked(file))
