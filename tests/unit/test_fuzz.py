# SPDX-License-Identifier: Apache-2.0
"""Damaged files of every kind that is read: an error of the reader's own, never another."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from bottleneck import readback
from bottleneck.spec import Bottleneck
from harness.lab_file import LabFileError, read_lab_file
from harness.queue_series import read_queue
from harness.store import Manifest, StoreError, parse_manifest
from scoring import latency, pcapng
from tests.unit.damage import EDITS, PART, TO, altered, damaged, fuzz

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


TRIP = {
    "seqno": 0, "lost": "false", "delay": {"receive": 1, "rtt": 20_200_000, "send": 1},
    "timestamps": {"client": {"send": {"wall": 1_795_273_136_250_000_000}}, "server": {"send": {"wall": 1}}},
}  # fmt: skip
IRTT = {"version": {}, "round_trips": [TRIP, TRIP, TRIP]}


@fuzz
@given(part=PART, to=TO, edits=st.one_of(st.none(), EDITS))
def test_irtt(place: Path, part: list[int], to: Any, edits: list[tuple[int, int, bytes]] | None) -> None:
    file = place / "irtt.json.gz"
    packed = gzip.compress(json.dumps(altered(IRTT, part, to)).encode(), 1)
    file.write_bytes(damaged(packed, edits) if edits else packed)
    for read in (latency.read_irtt, latency.read_irtt_down):
        try:
            read(file)
        except latency.ProbeError as error:
            assert "irtt.json.gz" in str(error)


ANSWERS = (HERE / "bottleneck" / "data" / "router.json").read_text()
ASKED = Bottleneck.symmetric(20_000_000, "dualpi2", 20_000)


@fuzz
@given(part=PART, to=TO, edits=st.one_of(st.none(), EDITS))
def test_tc(part: list[int], to: Any, edits: list[tuple[int, int, bytes]] | None) -> None:
    values = altered(list(readback.json_values(ANSWERS)), part, to)
    text = "\n".join(map(json.dumps, values)) if isinstance(values, list) else json.dumps(values)
    if edits:
        text = damaged(text.encode(), edits).decode(errors="replace")
    try:
        found = readback.state(text, "lan", "wan")
        assert all(readback.differences(ASKED, found) + readback.leftovers(found))
    except ValueError:
        return


@fuzz
@given(edits=EDITS)
def test_captures(place: Path, edits: list[tuple[int, int, bytes]]) -> None:
    whole = zstandard.ZstdDecompressor().decompressobj().decompress(
        (HERE / "scoring" / "data" / "cubic.pcapng.zst").read_bytes()
    )  # fmt: skip
    # Most of a capture is packets: every other file is damaged in its first blocks.
    content = damaged(whole[:600], edits) + whole[600:] if edits[0][0] % 2 else damaged(whole, edits)
    file = place / "client.pcapng"
    file.write_bytes(content)
    try:
        pcapng.read(file)
    except pcapng.CaptureError as error:
        assert "client.pcapng" in str(error)


LAB = re.search(r"```toml\n(.*?)```", (HERE.parents[1] / "docs" / "physical-lab.md").read_text(), re.DOTALL)


@fuzz
@given(edits=EDITS)
def test_lab_file(place: Path, edits: list[tuple[int, int, bytes]]) -> None:
    assert LAB
    file = place / "lab.toml"
    file.write_bytes(damaged(LAB[1].encode(), edits))
    try:
        read_lab_file(file)
    except LabFileError as error:
        assert "lab.toml" in str(error)


@fuzz
@given(part=PART, to=TO, edits=st.one_of(st.none(), EDITS))
def test_manifest(part: list[int], to: Any, edits: list[tuple[int, int, bytes]] | None) -> None:
    whole = json.loads(Manifest(run="a", test="b", cell="c", created=1.0).model_dump_json())
    whole["files"] = {"screen.mp4": {"sha256": "0" * 64, "bytes": 1}}
    content = json.dumps(altered(whole, part, to)).encode()
    try:
        parse_manifest(damaged(content, edits) if edits else content, "run")
    except StoreError as error:
        assert "manifest.json" in str(error)


QUEUE = {
    "t": 1.0,
    "dev": "lan",
    "qdiscs": [{"kind": "dualpi2", "handle": "10:", "parent": "1:10", "bytes": 9, "delay-c": 7}],
}


@fuzz
@given(part=PART, to=TO, edits=st.one_of(st.none(), EDITS))
def test_queue_samples(place: Path, part: list[int], to: Any, edits: list[tuple[int, int, bytes]] | None) -> None:
    content = "".join(json.dumps(line) + "\n" for line in (QUEUE, altered(QUEUE, part, to), QUEUE)).encode()
    (place / "qdisc.jsonl").write_bytes(damaged(content, edits) if edits else content)
    read_queue(place / "qdisc.jsonl", "lan", 10e6)
