# SPDX-License-Identifier: Apache-2.0
"""A call: a live one stays on one path; with both ends Sojourn's, packets are marked as by their sender."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from sojourn.scoring.call_marks import marks_within
from sojourn.scoring.gates.base import gate, gate_of_runs
from sojourn.scoring.gates.marking import ecn_fields, marked
from sojourn.scoring.schema import records
from sojourn.scoring.validity import Gate

if TYPE_CHECKING:
    from sojourn.scoring.picture.shown import Picture
    from sojourn.scoring.run_evidence import RunEvidence


#: First bytes of RTP and RTCP, among those of STUN and DTLS on the same port (RFC 7983).
_MEDIA = 128, 191


@gate_of_runs("call-path", "call-marked", "call-feedback")
def call(run: RunEvidence) -> Iterable[Gate]:
    """A live call must stay on one path; both ends of a stand-in call must mark their packets as its sender does.

    Both ends of a SCReAM call must also receive the other's RFC 8888 feedback.
    """
    call, span = run.setting.call, run.setting.span
    if not call:
        return
    if run.setting.live:
        lines = run.files.lines("player.jsonl", records.PLAYER)
        events = [s for s in lines if s.get("event") == "call" and span[0] <= s["t"] <= span[1]]
        yield call_path([s["detail"].get("path") for s in events], call["client"])
        return
    sent = {"client": run.behind.back if run.behind else None, "server": run.before.victim if run.before else None}
    for end, packets in sent.items():
        if run.setting.scream:
            # Chromium sends STUN and DTLS as Not-ECT, whatever it does with media.
            fields = ecn_fields(None if packets is None else media(packets), span)
            yield marked("call-marked", "call's media", end, fields, "ect1", run.limits)
        else:
            yield marked("call-marked", "call", end, ecn_fields(packets, span), call["ecn"], run.limits)
    for end, log in run.marks.items():
        yield call_feedback(end, marks_within(log, [span])["ccfb_received"] if log is not None else None)


@gate_of_runs("room-complete")
def room(run: RunEvidence) -> Iterable[Gate]:
    """Every party of a room must be shown, with its number, before the first phase."""
    if run.setting.room and run.far_picture:
        first = {party: _first_frame(seen) for party, seen in ((1, run.far_picture), *run.tiles.items())}
        yield room_complete(first, run.setting.span[0])


def _first_frame(seen: Picture) -> float | None:
    return None if seen.changes is None or not seen.changes.height else float(seen.changes["onset"][0])


def room_complete(first: Mapping[int, float | None], begin: float) -> Gate:
    """The first frame of each party with a known number (Unix s, None: never) must be shown before `begin`."""
    late = [str(party) for party, t in first.items() if t is None or t > begin]
    measured = f"{len(first) - len(late)} of {len(first)} parties" + (f", not {' and '.join(late)}" if late else "")
    return gate("room-complete", "room complete", not late, measured, "all shown before the first phase")


def media(packets: pl.DataFrame) -> pl.DataFrame:
    """Return the RTP and RTCP packets among those of a call (columns of `sojourn.scoring.packets.pcapng.SCHEMA`)."""
    return packets.filter(pl.col("first").is_between(*_MEDIA))


def call_feedback(end: str, messages: int | None) -> Gate:
    """An end of a SCReAM call must receive RFC 8888 feedback; None: its browser does not count such messages."""
    measured = "no feedback by RFC 8888" if messages is None else f"{messages} messages"
    return gate("call-feedback", f"call's feedback received ({end})", bool(messages), measured, "some")


def call_path(paths: Sequence[Mapping[str, Any] | None], first: Mapping[str, Any]) -> Gate:
    """A live call's picture must use its initial transport throughout, because packets are counted by it."""
    ports = ("port", "remotePort", "protocol")  # an address may become known later
    others = sum(
        path is None or any(path.get(name) is None or path[name] != first.get(name) for name in ports) for path in paths
    )
    measured = f"{others} of {len(paths)} s by another" if paths else "not recorded"
    return gate("call-path", "call by one path", bool(paths) and not others, measured, "throughout")
