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
from pydantic import ValidationError

from sojourn.apps.standins.har import ArchiveError, read_har
from sojourn.apps.standins.profile.from_har import profile_of
from sojourn.apps.standins.profile.recorded import ServiceProfileError, profile_text, read_profile
from sojourn.apps.standins.web.har import read_pages
from sojourn.bottleneck import readback
from sojourn.bottleneck.spec import Bottleneck
from sojourn.hardware.lab.lab_file import LabFileError, read_lab_file
from sojourn.harness.soak.plan import PlanError, read_plan
from sojourn.harness.soak.state import Attempt, Batch, BatchDirectory, StateError
from sojourn.harness.soak.status import clock, lines, status
from sojourn.harness.store.manifest import Manifest, StoreError, parse_manifest
from sojourn.harness.store.reasons import Reason
from sojourn.scoring.packets import latency, pcapng
from sojourn.scoring.packets.queue_series import read_queue
from tests.unit.apps.recorded.hars import mpd, played
from tests.unit.apps.recorded.test_from_har import HOST, NUMBERS, manifest
from tests.unit.apps.recorded.test_recorded import PROFILE
from tests.unit.apps.test_warc import CHUNKED, CHUNKS, Recorder
from tests.unit.damage import EDITS, PART, TO, altered, assigned, damaged, fuzz

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


HAR = {"log": {"version": "1.2", "entries": [
    manifest(mpd(NUMBERS)), *played(lambda height, index: f"{HOST}/film/media/v{height}/{index + 5:04d}.m4s"),
]}}  # fmt: skip


@fuzz
@given(part=PART, to=TO, edits=st.one_of(st.none(), EDITS))
def test_recordings_of_services(
    place: Path, part: list[int], to: Any, edits: list[tuple[int, int, bytes]] | None
) -> None:
    file = place / "a.har"
    text = json.dumps(altered(HAR, part, to)).encode()
    file.write_bytes(damaged(text, edits) if edits else text)
    try:
        profile_of(read_har(file))
    except (ArchiveError, ServiceProfileError) as error:
        assert "\n" not in str(error)


@fuzz
@given(edits=EDITS, packed=st.booleans())
def test_archives_of_pages(place: Path, edits: list[tuple[int, int, bytes]], packed: bool) -> None:
    (recorder := Recorder(packed)).answer("https://a.test/", request={})
    recorder.answer("https://a.test/1.js", "text/javascript", CHUNKS, headers=CHUNKED, request={"Referer": "/"})
    recorder.record("https://a.test/2", "revisit", WARC_Payload_Digest="sha1:A")
    file = recorder.written(place)
    file.write_bytes(damaged(file.read_bytes(), edits))
    try:
        read_pages(file)
    except ArchiveError as error:
        assert file.name in str(error) and "\n" not in str(error)


@fuzz
@given(edits=EDITS)
def test_profiles_of_services(place: Path, edits: list[tuple[int, int, bytes]]) -> None:
    file = place / "service.toml"
    file.write_bytes(damaged(profile_text(PROFILE).encode(), edits))
    try:
        read_profile(file)
    except ServiceProfileError as error:
        assert "service.toml" in str(error) and "\n" not in str(error)


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


def shown(page: str) -> str:
    """The first TOML file that a page of the documentation shows."""
    found = re.search(r"```toml\n(.*?)```", (HERE.parents[1] / "docs" / page).read_text(), re.DOTALL)
    assert found
    return found[1]


LAB, PLAN = shown("physical-lab.md"), shown("soak.md")


@fuzz
@given(which=st.integers(0, 100), to=TO, edits=st.one_of(st.none(), EDITS))
def test_lab_file(place: Path, which: int, to: Any, edits: list[tuple[int, int, bytes]] | None) -> None:
    file = place / "lab.toml"
    file.write_bytes(damaged(LAB.encode(), edits) if edits else assigned(LAB, which, to).encode())
    try:
        read_lab_file(file)
    except LabFileError as error:
        assert "lab.toml" in str(error)


@fuzz
@given(which=st.integers(0, 100), to=TO, edits=st.one_of(st.none(), EDITS))
def test_plan(place: Path, which: int, to: Any, edits: list[tuple[int, int, bytes]] | None) -> None:
    file = place / "plan.toml"
    file.write_bytes(damaged(PLAN.encode(), edits) if edits else assigned(PLAN, which, to).encode())
    try:
        plan = read_plan(file)
        assert plan.cells and plan.results.is_absolute() and all(plan.limit_s(cell) > 0 for cell in plan.cells)
    except PlanError as error:
        assert "plan.toml" in str(error)


BATCH = Batch(plan="a", plan_path="plan.toml", seed=1, begun=1.7e9, until=1.7e9, ended=1.7e9, code=0)
ATTEMPT = Attempt(
    number=1, round=1, cell="slow line", seed=1, begun=1.7e9, ended=1.7e9, outcome="void",
    reasons=[Reason.of("failed", "a: b")],
)  # fmt: skip


@fuzz
@given(of_batch=st.booleans(), part=PART, to=TO, edits=st.one_of(st.none(), EDITS))
def test_batch(
    place: Path, of_batch: bool, part: list[int], to: Any, edits: list[tuple[int, int, bytes]] | None
) -> None:
    """What a soak keeps of itself, as its status reads it."""
    folder = BatchDirectory(place / "batch")
    (folder.path / "attempts").mkdir(parents=True, exist_ok=True)
    (folder.path / "plan.toml").write_text(PLAN)
    folder.save(BATCH)
    folder.record(ATTEMPT)
    file = folder.path / "soak.json" if of_batch else folder.file(1, ".json")
    content = json.dumps(altered(json.loads(file.read_text()), part, to)).encode()
    file.write_bytes(damaged(content, edits) if edits else content)
    try:
        told = status(folder)
        assert lines(told) and json.dumps(told.record())
    except StateError as error:
        assert file.name in str(error)


@pytest.mark.parametrize("time", [1e300, -1.0, 253_402_300_800.0])
def test_a_time_that_no_date_can_be_made_of_is_refused(time: float) -> None:
    whole = json.loads(Manifest(run="a", test="b", cell="c", created=1.0).model_dump_json())
    with pytest.raises(StoreError, match=r"created"):
        parse_manifest(json.dumps(whole | {"created": time}).encode(), "run")
    with pytest.raises(ValidationError, match=r"until"):
        Batch.model_validate(BATCH.model_dump() | {"until": time})


@fuzz
@given(part=PART, to=TO, edits=st.one_of(st.none(), EDITS))
def test_manifest(part: list[int], to: Any, edits: list[tuple[int, int, bytes]] | None) -> None:
    whole = json.loads(Manifest(run="a", test="b", cell="c", created=1.0).model_dump_json())
    whole["files"] = {"screen.mp4": {"sha256": "0" * 64, "bytes": 1}}
    content = json.dumps(altered(whole, part, to)).encode()
    try:
        read = parse_manifest(damaged(content, edits) if edits else content, "run")
        assert clock(read.finished or read.created)
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
    read_queue(place / "qdisc.jsonl", "lan", lambda t: 10e6)
