# SPDX-License-Identifier: Apache-2.0
"""A capture as tcpdump writes it, made pcapng: the same packets, with the count that the kernel dropped."""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path

import pytest
import zstandard

from sojourn.captures.pcap import PcapError, to_pcapng
from sojourn.hardware.machine.files import CHECKOUT
from sojourn.scoring.packets import pcapng

RECORDED = CHECKOUT / "tests" / "unit" / "scoring" / "data" / "cubic.pcapng.zst"


@pytest.fixture(scope="module")
def pcap(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recorded capture in tcpdump's format, by wireshark's own converter."""
    folder = tmp_path_factory.mktemp("pcap")
    (whole := folder / "a.pcapng").write_bytes(zstandard.ZstdDecompressor().stream_reader(RECORDED.open("rb")).read())
    subprocess.run(["editcap", "-F", "nsecpcap", whole, folder / "a.pcap"], check=True)
    return folder / "a.pcap"


def test_the_packets_are_the_same(pcap: Path, tmp_path: Path) -> None:
    was = pcapng.read(RECORDED)
    count = to_pcapng(pcap, tmp_path / "b.pcapng", 7)
    found = pcapng.read(tmp_path / "b.pcapng")
    assert found.packets.equals(was.packets) and count == was.packets.height + was.other
    assert found.dropped == 7


def test_a_capture_of_a_machine_with_the_other_byte_order_is_the_same(pcap: Path, tmp_path: Path) -> None:
    data, at = pcap.read_bytes(), 24
    swapped = [struct.pack(">IHHiIII", *struct.unpack("<IHHiIII", data[:at]))]
    while at < len(data):
        head = struct.unpack("<IIII", data[at : at + 16])
        swapped += [struct.pack(">IIII", *head), data[at + 16 : at + 16 + head[2]]]
        at += 16 + head[2]
    (tmp_path / "big.pcap").write_bytes(b"".join(swapped))
    for file, made in ((pcap, "a"), (tmp_path / "big.pcap", "b")):
        to_pcapng(file, tmp_path / made, 0)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_cut_off_capture_keeps_its_whole_packets_and_no_count(pcap: Path, tmp_path: Path) -> None:
    (cut := tmp_path / "cut.pcap").write_bytes(pcap.read_bytes()[:-5])
    count = to_pcapng(cut, tmp_path / "b.pcapng", None)
    found = pcapng.read(tmp_path / "b.pcapng")
    assert found.packets.height + found.other == count == pcapng.read(RECORDED).packets.height - 1 + found.other
    assert found.dropped is None


def test_what_is_no_such_capture_is_named(tmp_path: Path) -> None:
    (file := tmp_path / "x.pcap").write_bytes(b"tcpdump: no such device" * 2)
    with pytest.raises(PcapError, match=r"x\.pcap is not a tcpdump capture with nanosecond timestamps"):
        to_pcapng(file, tmp_path / "y.pcapng", 0)
