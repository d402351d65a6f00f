# SPDX-License-Identifier: Apache-2.0
"""The profile of a service from a recording of its requests. Pure."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise, takewhile
from statistics import fmean, median

from pydantic import ValidationError

from sojourn.apps.standins.har import Codepoint, Exchange, Har
from sojourn.apps.standins.ladder import LADDER
from sojourn.apps.standins.profile.manifests import (
    DeclaredTrack,
    Kind,
    ManifestError,
    is_manifest,
    is_sound,
    location,
    merged,
    tracks_of,
)
from sojourn.apps.standins.profile.recorded import (
    MOST_RENDITIONS,
    MOST_SEGMENTS,
    Rendition,
    ServiceProfile,
    ServiceProfileError,
    SoundTrack,
    Visible,
)
from sojourn.hardware.machine.messages import first_wrong, printable

_SUFFIXES = re.compile(r"\.(m4s|mp4|m4v|m4a|cmfv|cmfa|webm|ts|aac|mp4a)$", re.IGNORECASE)
_OPAQUE_TYPES = ("", "x-unknown", "application/octet-stream", "binary/octet-stream", "application/mp4")
_LINES = re.compile(r"(?<!\d)(\d{3,4})p(?!\d)|(?<!\d)\d{3,4}x(\d{3,4})(?!\d)", re.IGNORECASE)
#: Requests of a rendition from which it can be recognised without a manifest.
_LEAST = 3
#: How far the number that counts segments grows between two requests of a rendition: others are in between.
_MOST_STEP = 10
#: A player that has waited for this share of a segment's length has waited for room in its buffer.
_WAITED = 0.4
#: The error of a buffer's level, s.
_ROUNDING_S = 0.1
#: Without a manifest, the length of segments is a multiple of this, s.
_STEP_S = 0.5
#: A shorter time to the next request is no pause, s.
_PAUSE_S = 0.1


@dataclass(frozen=True)
class Fetch:
    """A recorded request of one segment."""

    exchange: Exchange
    track: DeclaredTrack
    index: int
    size: int


def profile_of(har: Har) -> ServiceProfile:
    """Return the profile of a recorded service. Raises ServiceProfileError, ArchiveError."""
    try:
        return _profile_of(har)
    except ValidationError as wrong:  # a size or a rate that no service has
        said = printable(first_wrong(wrong))[:200]
        raise ServiceProfileError(f"the recording makes no profile: {said}", code="out-of-range") from wrong


def _profile_of(har: Har) -> ServiceProfile:
    answered = [it for it in har.exchanges if it.status in (200, 206) and it.method == "GET"]
    tracks = _declared(answered)
    fetches = list(_declared_fetches(answered, tracks))
    if not _of(fetches, "video"):
        fetches = _named_fetches([it for it in answered if _is_media(it)])
    picture = _of(fetches, "video")
    if not picture:
        raise ServiceProfileError(_why_none(har, answered), code="missing")
    _require_recognised(har, fetches)
    group = Counter(it.track.group for it in picture).most_common(1)[0][0]
    picture = [it for it in picture if it.track.group == group]
    offered = _ladder(picture, tracks, group)
    segment_s = _segment_s(picture)
    fetches = [*picture, *_of(fetches, "audio")]
    _require_one_size(fetches)
    started = datetime.fromtimestamp(har.exchanges[0].started, UTC)
    return ServiceProfile(
        profile=1,
        service=printable(picture[0].exchange.address.hostname or "")[:200],
        recorder=har.recorder,
        recorded=started.isoformat(timespec="seconds"),
        protocol=printable(picture[0].exchange.protocol)[:20],
        segment_s=round(segment_s, 6),
        buffer_s=_buffer_s(picture, segment_s),
        rendition=tuple(_renditions(picture, offered, segment_s)),
        sound=_sound(_of(fetches, "audio")),
        visible=_visible(har, picture, fetches),
    )


def _of(fetches: Iterable[Fetch], kind: Kind) -> list[Fetch]:
    return [it for it in fetches if it.track.kind == kind]


def _is_media(exchange: Exchange) -> bool:
    if is_manifest(exchange.mime, exchange.address.path):  # some servers' type of playlists is audio/x-mpegurl
        return False
    named = bool(_SUFFIXES.search(exchange.address.path))
    return exchange.mime.startswith(("video/", "audio/")) or (named and exchange.mime in _OPAQUE_TYPES)


def _is_sound(exchange: Exchange) -> bool:
    return exchange.mime.startswith("audio/") or is_sound(exchange.address.path) or "audio" in location(exchange.url)


def _require_recognised(har: Har, fetches: Sequence[Fetch]) -> None:
    """Raise ServiceProfileError if most requests of the picture are of no rendition: an advert is not the film."""
    known = {it.exchange.number for it in fetches}
    sent = [it for it in har.exchanges if it.status in (200, 206) and _is_media(it) and not _is_sound(it)]
    other = [it.number for it in sent if it.number not in known]
    if len(other) > (found := len(_of(fetches, "video"))):
        raise ServiceProfileError(
            f"only {found} requests of the picture name a rendition and a segment, {len(other)} do not, such as entry "
            f"{other[0]}; see 'Not recognised' in docs/profile.md",
            code="unsupported",
        )


def _declared(answered: Sequence[Exchange]) -> list[DeclaredTrack]:
    """Return the tracks of the recorded manifests. Raises ServiceProfileError."""
    found = []
    number = 0
    try:
        for exchange in answered:
            number = exchange.number
            if is_manifest(exchange.mime, exchange.address.path) and (body := exchange.body):
                found.append(tracks_of(exchange.url, body))
        return merged(found)
    except ManifestError as wrong:
        raise ServiceProfileError(f"entry {number}: {printable(str(wrong))[:200]}", code="damaged") from wrong


def _declared_fetches(answered: Iterable[Exchange], tracks: Sequence[DeclaredTrack]) -> Iterable[Fetch]:
    """Yield the segments of declared tracks; a query that no manifest has is the player's own."""
    for exchange in answered:
        places = dict.fromkeys((location(exchange.url), exchange.address.path))
        found = ((track, index) for it in places for track in tracks if (index := track.index(it)) is not None)
        if exchange.size and (first := next(found, None)):
            if exchange.mime.startswith("audio/") and not first[0].bandwidth_bps:  # no master playlist says what it is
                first[0].kind = "audio"
            yield Fetch(exchange, *first, exchange.size)


def _named_fetches(media: Sequence[Exchange]) -> list[Fetch]:
    """Return the segments by their addresses alone, in which one number counts them, in the order of requests."""
    skeletons: dict[tuple[str, ...], list[tuple[Exchange, list[int]]]] = defaultdict(list)
    for exchange in media:
        if exchange.size:
            parts = re.split(r"(\d{1,20})", location(exchange.url))
            skeletons[tuple(parts[::2])].append((exchange, [int(it) for it in parts[1::2]]))
    fetches = []
    for found in skeletons.values():
        if len(found) < _LEAST:
            continue
        counter = _counting([numbers for _, numbers in found])
        if counter is None:
            continue
        kind: Kind = "audio" if _is_sound(found[0][0]) else "video"
        group = f"of {found[0][0].address.hostname}"
        tracks: dict[tuple[int, ...], DeclaredTrack] = {}
        for exchange, numbers in found:
            rendition = (*numbers[:counter], *numbers[counter + 1 :])
            track = tracks.setdefault(rendition, DeclaredTrack(kind, group, repr(rendition), 0))
            if match := _LINES.search(location(exchange.url)):
                track.height = int(match[1] or match[2])
            fetches.append(Fetch(exchange, track, numbers[counter], exchange.size or 0))
    return sorted(fetches, key=lambda it: (it.exchange.started, it.exchange.number))


def _counting(numbers: Sequence[Sequence[int]]) -> int | None:
    """Return the place of the number that counts segments: from one request to the next it mostly grows a little."""
    best, share = None, 0.5
    for place in range(len(numbers[0])):
        steps = [after[place] - before[place] for before, after in pairwise(numbers)]
        if (regular := sum(0 < step <= _MOST_STEP for step in steps) / len(steps)) > share:
            best, share = place, regular
    return best


def _why_none(har: Har, answered: Sequence[Exchange]) -> str:
    media = [it for it in answered if _is_media(it)]
    if not media:
        return f"no video among {len(har.exchanges)} requests; record while a film plays"
    return (
        f"the addresses of {len(media)} media requests have no segment numbers, and no manifest with its content was "
        "recorded; record with the content of text (Playwright: record_har_content='embed')"
    )


def _ladder(picture: Sequence[Fetch], tracks: Sequence[DeclaredTrack], group: str) -> list[DeclaredTrack]:
    """Return the tracks of the ladder, lowest rate first, with heights and rates. Raises ServiceProfileError."""
    known = [track for track in tracks if track.group == group and track.kind == "video"]
    offered = {id(track): track for track in [*known, *(it.track for it in picture)]}
    of_track: dict[int, list[int]] = defaultdict(list)
    for fetch in picture:
        of_track[id(fetch.track)].append(fetch.size)
    segment_s = _segment_s(picture)
    for track in offered.values():
        if not track.bandwidth_bps and id(track) in of_track:
            track.bandwidth_bps = round(fmean(of_track[id(track)]) * 8 / segment_s)
    played = of_track.keys()
    ladder = sorted(
        (it for it in offered.values() if it.bandwidth_bps), key=lambda it: (it.bandwidth_bps, id(it) in played)
    )
    ladder = [it for it, after in zip(ladder, [*ladder[1:], None], strict=True)
              if not after or it.bandwidth_bps < after.bandwidth_bps]  # fmt: skip
    if not ladder or len(ladder) > MOST_RENDITIONS:
        wanted = f"a profile has 1 to {MOST_RENDITIONS}"
        raise ServiceProfileError(f"{len(ladder)} renditions of the picture; {wanted}", code="out-of-range")
    _guess_heights(ladder)
    return ladder


def _guess_heights(ladder: Sequence[DeclaredTrack]) -> None:
    """Give renditions without a height that of Sojourn's rung with the nearest rate, between those around them."""
    for place, track in enumerate(ladder):
        if track.height:
            continue
        below = max((it.height for it in ladder[:place]), default=0)
        above = next((it.height for it in ladder[place:] if it.height), LADDER[-1].height + 1)
        left = len([*takewhile(lambda it: not it.height, ladder[place + 1 :])])
        rungs = [rung for rung in LADDER if below < rung.height < above]
        rungs = rungs[: max(1, len(rungs) - left)]
        nearest = min(rungs, key=lambda it: abs(math.log(it.bps / track.bandwidth_bps)), default=None)
        track.height = nearest.height if nearest else below or above


def _segment_s(picture: Sequence[Fetch]) -> float:
    """Return the length of segments: declared, or that of the steady state of requests. Raises ServiceProfileError."""
    declared = [it.track.segment_s for it in picture if it.track.segment_s]
    if declared:
        return median(declared)
    waited = [
        (after.exchange.started - before.exchange.started) / (after.index - before.index)
        for before, after in pairwise(picture)
        if after.index > before.index and _pause_s(before, after) > _PAUSE_S
    ]
    if not waited:
        raise ServiceProfileError(
            "the length of segments is not known: no manifest, and the player never waited; record a minute or more",
            code="too-short",
        )
    return max(_STEP_S, round(median(waited) / _STEP_S) * _STEP_S)


def _require_one_size(fetches: Iterable[Fetch]) -> None:
    """Raise ServiceProfileError if a segment has two sizes: then the addresses do not name segments."""
    sizes: dict[tuple[int, int], Fetch] = {}
    for fetch in fetches:
        known = sizes.setdefault((id(fetch.track), fetch.index), fetch)
        if known.size != fetch.size:
            raise ServiceProfileError(
                f"entries {known.exchange.number} and {fetch.exchange.number}: the same segment has {known.size} and "
                f"{fetch.size} bytes; answers that depend on more than the address cannot be replayed",
                code="duplicate",
            )


def _renditions(picture: Sequence[Fetch], ladder: Sequence[DeclaredTrack], segment_s: float) -> Iterable[Rendition]:
    first = min(it.index for it in picture)
    count = max(it.index for it in picture) - first + 1
    if count > MOST_SEGMENTS:
        raise ServiceProfileError(f"{count} segments; a profile has at most {MOST_SEGMENTS}", code="too-large")
    sizes: dict[int, dict[int, int]] = {id(track): {} for track in ladder}
    for fetch in picture:
        if id(fetch.track) in sizes:
            sizes[id(fetch.track)][fetch.index - first] = fetch.size
    # A segment's share of its rendition's rate, which other renditions have too: the same pictures are as difficult.
    means = {key: fmean(known.values()) for key, known in sizes.items() if known}
    filled = fmean(mean / (it.bandwidth_bps * segment_s / 8) for it in ladder if (mean := means.get(id(it))))
    shares = [
        [known[index] / means[key] for key, known in sizes.items() if index in known] or [1.0] for index in range(count)
    ]
    for track in ladder:
        known = sizes[id(track)]
        mean = means.get(id(track), track.bandwidth_bps * segment_s / 8 * filled)
        estimated = (max(1, round(mean * fmean(shares[index]))) for index in range(count))
        yield Rendition(
            height=track.height, bandwidth=track.bandwidth_bps, recorded=len(known),
            sizes=tuple(known.get(index, size) for index, size in enumerate(estimated)),
        )  # fmt: skip


def _sound(sound: Sequence[Fetch]) -> SoundTrack | None:
    if not sound:
        return None
    most = Counter(id(it.track) for it in sound).most_common(1)[0][0]
    played = [it for it in sound if id(it.track) == most]
    segment_s = _segment_s(played)
    first = min(it.index for it in played)
    known = {it.index - first: it.size for it in played}
    mean = round(fmean(known.values()))
    count = min(max(known) + 1, MOST_SEGMENTS)
    return SoundTrack(
        bandwidth=played[0].track.bandwidth_bps or round(mean * 8 / segment_s), segment_s=round(segment_s, 6),
        recorded=len(known), sizes=tuple(known.get(index, mean) for index in range(count)),
    )  # fmt: skip


def _buffer_s(picture: Sequence[Fetch], segment_s: float) -> float:
    """Return the seconds of film that the player keeps: its level after a segment that it requested after a pause.

    The level is what has arrived since the first segment, less the time since then: playback begins with its arrival.
    A player requests a segment a moment after it has room for one, so its goal is the next larger whole number.
    """
    begun = picture[0].exchange.ended
    levels, waited = [2.0], []
    arrived: set[int] = set()
    for before, fetch in pairwise(picture):
        arrived.add(before.index)
        levels.append((len(arrived) + 1) * segment_s - (fetch.exchange.started - begun))
        if _pause_s(before, fetch) > _WAITED * segment_s:
            waited.append(levels[-1])
    return float(min(120, max(2, math.ceil((median(waited) if waited else max(levels)) - _ROUNDING_S))))


def _pause_s(before: Fetch, fetch: Fetch) -> float:
    return fetch.exchange.started - before.exchange.ended


def _visible(har: Har, picture: Sequence[Fetch], fetches: Sequence[Fetch]) -> Visible:
    requests = [it.exchange.request_bytes for it in fetches if it.exchange.request_bytes]
    gaps = [_pause_s(before, after) for before, after in pairwise(picture)]
    sent = [it for it in fetches if not it.exchange.cached]
    rates = [it.size * 8 / it.exchange.receive_s for it in sent if it.track.kind == "video" and it.exchange.receive_s]
    hosts = {it.exchange.address.hostname for it in fetches}
    connects = [it.connect_s for it in har.exchanges if it.connect_s and it.address.hostname in hosts]
    waits = [it.exchange.wait_s for it in sent if it.exchange.wait_s]
    ecn = sum((Counter(it.ecn) for it in har.exchanges if it.address.hostname in hosts), Counter[Codepoint]())
    marked, capable = ecn.pop("ce", 0), ecn["ect0"] + ecn["ect1"]

    def of(values: Sequence[float], digits: int, factor: float = 1.0) -> float | None:
        return round(median(values) * factor, digits) if values else None

    return Visible(
        requests=len(fetches),
        request_bytes=round(median(requests)) if requests else None,
        pause_s=of([gap for gap in gaps if gap > _PAUSE_S], 3),
        receive_bps=round(median(rates)) if rates else None,
        rtt_ms=round(min(connects) * 1000, 3) if connects else None,
        first_byte_ms=round(min(waits) * 1000, 3) if waits else None,
        ecn=next((name for name, _ in ecn.most_common(1)), None),
        ce_share=round(marked / (capable + marked), 6) if capable + marked else None,
    )
