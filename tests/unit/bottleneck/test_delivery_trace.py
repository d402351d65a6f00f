# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import tracemalloc
from itertools import pairwise
from pathlib import Path
from statistics import fmean, pstdev

import pytest
from pydantic import ValidationError

from sojourn.bottleneck import delivery_trace
from sojourn.bottleneck.delivery_trace import DeliveryTrace, DeliveryTraceError
from sojourn.bottleneck.spec import Direction, Hop


def test_a_generated_link_is_its_parameters_alone() -> None:
    link = DeliveryTrace(seconds=10)
    assert (
        list(link.times_ms)
        == delivery_trace.generated(DeliveryTrace(seconds=10))
        != delivery_trace.generated(DeliveryTrace(seconds=10, seed=2))
    )
    assert all(a <= b for a, b in pairwise(link.times_ms)) and link.times_ms[-1] == 10_000


def test_a_generated_link_has_the_rate_asked_for_and_varies() -> None:
    links = [DeliveryTrace(mean_mbps=12, seconds=60, seed=seed) for seed in range(1, 7)]
    assert fmean(link.rate_bps for link in links) == pytest.approx(12e6, rel=0.05)
    seconds = [sum(n * 1000 <= at < (n + 1) * 1000 for at in links[0].times_ms) for n in range(60)]
    assert pstdev(seconds) > 3 * fmean(seconds) ** 0.5, "more than a Poisson process of a fixed rate"


def test_an_outage_lasts_for_about_a_second() -> None:
    """What is left of one after half a second, too: it ends at random (Sprout, section 3.1). Some follow at once."""
    links = [DeliveryTrace(mean_mbps=2, seconds=600, seed=seed) for seed in range(1, 5)]
    gaps = [after - at for link in links for at, after in pairwise(link.times_ms)]
    assert fmean(gap - 500 for gap in gaps if gap > 500) == pytest.approx(1250, rel=0.25)


def test_without_volatility_a_link_is_a_poisson_process() -> None:
    times = DeliveryTrace(mean_mbps=12, seconds=60, volatility=0).times_ms
    tenths = [0] * 600
    for at in times[:-1]:
        tenths[at // 100] += 1
    assert pstdev(tenths) ** 2 == pytest.approx(fmean(tenths), rel=0.2)


def test_the_hash_is_fnv_1a() -> None:
    # Of nothing it is the offset basis (draft-eastlake-fnv, 5); of two times, that of their eight bytes.
    assert delivery_trace.fnv1a(()) == "cbf29ce484222325"
    assert delivery_trace.fnv1a([int.from_bytes(b"chon", "little"), int.from_bytes(b"go w", "little")]) == _fnv(
        b"chongo w"
    )


def _fnv(text: bytes) -> str:
    value = 0xCBF29CE484222325
    for byte in text:
        value = ((value ^ byte) * 0x100000001B3) % 2**64
    return f"{value:016x}"


def test_a_trace_is_read_as_it_was_written(tmp_path: Path) -> None:
    trace = tmp_path / "link.up"
    trace.write_text(delivery_trace.text([0, 3, 3, 10]))
    link = DeliveryTrace.of_file(trace)
    assert list(link.times_ms) == [0, 3, 3, 10] and link.rate_bps == round(4 * 1514 * 8 / 0.01)
    line = " ".join([*link.shown("lan"), "7", "5"])
    assert delivery_trace.differences(link, "lan", [line]) == []
    assert delivery_trace.differences(link, "lan", [line.replace("lan 4", "lan 5")]) == [
        f"lan: requested slots {link.shown('lan')}, found {[['lan', '5', '10', link.hash]]}"
    ]
    trace.write_text(delivery_trace.text([0, 3, 4, 11, 12]))
    with pytest.raises(DeliveryTraceError, match="the trace has changed"):
        _ = link.times_ms


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "0 slots, the last at 0 ms"),
        ("\n \r\n", "0 slots, the last at 0 ms"),
        ("0\n0\n", "2 slots, the last at 0 ms"),
        ("5\n4\n", "not in ascending order"),
        ("1\n2.5\n", "'2.5' is not a time"),
        ("1\n-2\n", "'-2' is not a time"),
        ("1\nNaN\n", "'NaN' is not a time"),
        ("1\n1e3\n", "'1e3' is not a time"),
        ("\ufeff1\n", "is not a time"),
        ("٣\n", "is not a time"),
        ("1\x002\n", "is not a time"),
        ("\x7fELF\x02\x01", "is not a time"),
        ("4294967296\n", "'4294967296' is not a time; .* at most 4294967295"),
        ("1\n" + "9" * 5000, "'99999999999999999999' is not a time"),
    ],
)
def test_a_file_that_is_no_trace_is_refused(text: str, why: str, tmp_path: Path) -> None:
    (tmp_path / "odd").write_text(text)
    with pytest.raises(DeliveryTraceError, match=rf"^{tmp_path}/odd: .*{why}"):
        DeliveryTrace.of_file(tmp_path / "odd")


@pytest.mark.parametrize("kind", ["missing", "folder", "pipe", "device", "link to itself", "sparse"])
def test_what_is_no_file_is_refused_at_once(kind: str, tmp_path: Path) -> None:
    odd = tmp_path / "odd"
    if kind == "folder":
        odd.mkdir()
    elif kind == "pipe":
        os.mkfifo(odd)
    elif kind == "device":
        odd.symlink_to("/dev/zero")
    elif kind == "link to itself":
        odd.symlink_to(odd)
    elif kind == "sparse":
        with odd.open("wb") as file:
            file.truncate(1 << 40)
    with pytest.raises(DeliveryTraceError, match=rf"^{odd}: [^\n]*$"):
        DeliveryTrace.of_file(odd)


def test_the_longest_trace_is_read_once_within_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = tmp_path / "long"
    long.write_text("".join(f"{at}\n" for at in range(100_000)))
    tracemalloc.start()
    link = DeliveryTrace.of_file(long)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 64 * 100_000, "bytes for each slot"
    monkeypatch.setattr(delivery_trace, "read", lambda _: pytest.fail("read again"))
    assert DeliveryTrace.of_file(long) == link and len(link.times_ms) == 100_000


def test_more_slots_than_the_kernel_takes_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery_trace, "_MOST_SLOTS", 3)
    (tmp_path / "odd").write_text("1\n1\n1\n1\n")
    with pytest.raises(DeliveryTraceError, match="4 slots"):
        DeliveryTrace.of_file(tmp_path / "odd")


def test_a_file_without_its_hash_is_refused() -> None:
    with pytest.raises(ValidationError, match=r"DeliveryTrace\.of_file"):
        DeliveryTrace(file="link.up")


def test_a_specification_reads_no_file_and_is_not_endless(tmp_path: Path) -> None:
    """It may come from somebody else's bundle."""
    (secret := tmp_path / "token").write_text("secret")
    down = Direction(rate_bps=12_000_000, qdisc="pfifo")  # type: ignore[arg-type]
    hop = Hop(down=down, slots=DeliveryTrace(file=str(secret), hash="0" * 16))
    with pytest.raises(DeliveryTraceError):
        _ = hop.slots and hop.slots.times_ms
    with pytest.raises(ValidationError, match="slots; a generated schedule has at most"):
        DeliveryTrace(mean_mbps=1000, seconds=3600)
