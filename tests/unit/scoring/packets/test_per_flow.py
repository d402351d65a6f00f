# SPDX-License-Identifier: Apache-2.0
"""Real captures (CUBIC through a shaper that drops, Prague over IPv6) read as tshark reads them; then corner cases."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import zstandard

from sojourn.scoring.packets import pcapng, per_flow, unpacked

DATA = Path(__file__).parents[1] / "data"
# tshark 4.0.17 -T fields of the same files (an IPv6 packet is its payload and 40 bytes), its count of all packets, of
# those that are neither TCP nor UDP, and of tcp.analysis.retransmission.
TSHARK = {"cubic": (227, 2, 17), "ipv6": (259, 6, 0)}


def made(rows: list[tuple[float, int, int, int]], proto: int = 6, **more: int) -> pl.DataFrame:
    """Packets of one flow from (seconds, seq, payload, flags)."""
    base = {
        "src": 1,
        "dst": 2,
        "sport": 40001,
        "dport": 5201,
        "proto": proto,
        "ecn": 0,
        "ip_bytes": 1500,
    } | more
    table = [{"t_ns": round(t * 1e9), "seq": s % 2**32, "payload": n, "flags": f, **base} for t, s, n, f in rows]
    return pl.DataFrame(table, schema=pcapng.SCHEMA)


@pytest.mark.parametrize("name", TSHARK)
def test_every_field_is_what_tshark_reads(name: str) -> None:
    capture, (count, others, _) = pcapng.read(DATA / f"{name}.pcapng.zst"), TSHARK[name]
    table = capture.packets
    rows = [line.split("\t") for line in (DATA / f"{name}.tshark.tsv").read_text().splitlines()]
    lines = [row for row in rows if row[2]]  # the others are ARP, ICMPv6
    assert (table.height, capture.other) == (len(lines), len(rows) - len(lines)) == (count - others, others)
    for line, row in zip(lines, table.iter_rows(named=True), strict=True):
        seconds, fraction = line[0].split(".")
        assert row["t_ns"] == int(seconds) * 10**9 + int(fraction)
        assert (row["src"], row["sport"]) == (per_flow.address(line[1]), int(line[2]))
        assert (row["dst"], row["dport"]) == (per_flow.address(line[3]), int(line[4]))
        assert (row["ecn"], row["ip_bytes"], row["seq"]) == (int(line[5]), int(line[6]), int(line[7]))
        assert (row["flags"], row["payload"]) == (int(line[8], 16), int(line[9]))


@pytest.mark.parametrize("name", TSHARK)
def test_retransmissions_are_those_of_tshark(name: str) -> None:
    table = per_flow.with_advance(pcapng.read(DATA / f"{name}.pcapng.zst").packets)
    assert table["resent"].sum() == TSHARK[name][2]


def test_the_count_of_dropped_packets_is_in_the_file() -> None:
    assert pcapng.read(DATA / "cubic.pcapng.zst").dropped == 0


def test_a_killed_capture_reads_up_to_its_last_whole_packet(tmp_path: Path) -> None:
    whole = zstandard.ZstdDecompressor().stream_reader((DATA / "cubic.pcapng.zst").open("rb")).read()
    cut = tmp_path / "cut.pcapng"
    cut.write_bytes(whole[: len(whole) // 2])
    capture = pcapng.read(cut)
    assert 50 < capture.packets.height < 225
    assert capture.dropped is None


def test_blocks_that_straddle_chunks_are_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = pcapng.read(DATA / "cubic.pcapng.zst").packets
    monkeypatch.setattr(unpacked, "_CHUNK", 1001)
    assert pcapng.read(DATA / "cubic.pcapng.zst").packets.equals(whole)


@pytest.mark.parametrize("content", [b"\xd4\xc3\xb2\xa1" + bytes(40), b""])
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "old.pcap"
    file.write_bytes(content)
    with pytest.raises(pcapng.CaptureError, match="not a pcapng"):
        pcapng.read(file)


def test_a_packet_block_too_short_for_a_packet_is_damage(tmp_path: Path) -> None:
    (file := tmp_path / "short.pcapng").write_bytes(
        pcapng.block(pcapng.SECTION, pcapng.SECTION_BODY)
        + pcapng.block(pcapng.INTERFACE, struct.pack("<HHI", 1, 0, 128))
        + pcapng.block(pcapng.PACKET, b"")
    )
    with pytest.raises(pcapng.CaptureError, match=r"short\.pcapng is damaged: a block of 12 bytes"):
        pcapng.read(file)


def test_progress_crosses_the_wrap_and_ignores_retransmissions() -> None:
    start = 2**32 - 2000
    table = made([(0, start - 1, 0, 2), (1, start, 1000, 16), (2, start + 1000, 1000, 16),
                  (3, start, 1000, 16), (4, start + 2000, 1000, 16), (5, start + 3000, 0, 17)])  # fmt: skip
    advanced = per_flow.with_advance(table)
    assert advanced["advance"].to_list() == [0, 1000, 1000, 0, 1000, 0]
    assert advanced["resent"].to_list() == [False, False, False, True, False, False]


@pytest.mark.parametrize("flags", [16, 17])
def test_what_carries_no_data_does_not_run_ahead_of_lost_data(flags: int) -> None:
    """2000 is lost; an ACK or FIN with the next number to be sent passes, then 2000 is sent again."""
    table = made([(0, 1000, 1000, 16), (1, 3000, 0, flags), (2, 2000, 1000, 16), (3, 3000, 500, 16)])
    advanced = per_flow.with_advance(table)
    assert advanced["advance"].to_list() == [1000, 0, 1000, 500] and not advanced["resent"].any()


def test_progress_over_four_wraps() -> None:
    step = 2**30
    rows = [(i * 0.001, i * step, 1000, 16) for i in range(17)]
    assert per_flow.with_advance(made(rows))["advance"].sum() == 16 * step + 1000


def test_flows_do_not_mix() -> None:
    one = made([(0, 0, 100, 16), (2, 100, 100, 16)])
    two = made([(1, 4_000_000_000, 50, 16), (3, 4_000_000_050, 50, 16)], sport=40002)
    both = per_flow.with_advance(pl.concat([one, two]).sort("t_ns"))
    assert both["advance"].to_list() == [100, 50, 100, 50]


def test_udp_counts_payload() -> None:
    advanced = per_flow.with_advance(made([(0, 0, 1200, 0), (1, 0, 800, 0)], proto=17))
    assert advanced["advance"].to_list() == [1200, 800]
    assert per_flow.goodput_bps(advanced, 0, 2) == 8000


def test_goodput_series_and_window_goodput_agree() -> None:
    t0 = 1_795_273_136.0
    advanced = per_flow.with_advance(made([(t0 + i / 100, i * 1250, 1250, 16) for i in range(7000)]))
    series = per_flow.goodput_series(advanced, t0, t0 + 70, 0.1)
    assert np.allclose(series, 1e6)
    assert per_flow.window_goodput_bps(advanced, t0 + 70, window=40) == pytest.approx(1e6)
    with pytest.raises(ValueError, match="window"):
        per_flow.goodput_bps(advanced, t0, t0)


def test_flow_table_sees_the_accecn_handshake_and_the_codepoints() -> None:
    accurate = made([(0, 0, 0, 0x1C2)])
    data = made([(1, 1, 10, 16), (2, 11, 10, 16)], ecn=1)
    marked = made([(3, 21, 10, 16)], ecn=3)
    row = per_flow.flow_table(per_flow.with_advance(pl.concat([accurate, data, marked]))).row(0, named=True)
    assert (row["accecn_syn"], row["ect1"], row["ce"], row["data_packets"], row["bytes"]) == (
        True,
        2,
        1,
        3,
        30,
    )
    classic = per_flow.flow_table(per_flow.with_advance(made([(0, 0, 0, 0xC2)]))).row(0, named=True)
    assert classic["accecn_syn"] is False
    assert per_flow.flow_table(per_flow.with_advance(data))["accecn_syn"][0] is None


def test_an_echo_of_some_congestion_has_the_former_ns_flag_and_is_no_accecn_syn() -> None:
    acks = made([(0, 0, 0, 0x1C2), (1, 1, 0, 0x10), (2, 1, 0, 0x110), (3, 1, 0, 0x150)])
    ends = {"src": "dst", "dst": "src", "sport": "dport", "dport": "sport", "proto": "proto"}
    flow = {name: acks[other][0] for name, other in ends.items()}
    assert per_flow.esce(acks, flow) == 2 and per_flow.esce(acks, flow | {"dport": flow["dport"] + 1}) == 0
