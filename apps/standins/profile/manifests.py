# SPDX-License-Identifier: Apache-2.0
"""What a recorded manifest declares: DASH (ISO/IEC 23009-1) and HLS (RFC 8216), from anyone. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Literal
from urllib.parse import urljoin, urlsplit
from xml.etree import ElementTree

from sojourn.apps.standins.profile.recorded import MOST_SEGMENTS

Kind = Literal["video", "audio"]
_LARGEST = 16 << 20
_MOST_DECLARED = 100_000
_MOST_TRACKS = 500
#: $Number$, $Number%05d$ (ISO/IEC 23009-1, 5.3.9.4.4).
_IDENTIFIER = re.compile(r"\$(RepresentationID|Number|Bandwidth|Time|)(?:%0(\d{1,2})d)?\$")
#: Digits of a number in an address: times have 64 bits.
_DIGITS = r"\d{1,20}"
#: A player's report on itself (CTA-5004), which differs in every request.
_REPORT = re.compile(r"(?:^|(?<=&))CMCD=[^&]*(?:&|$)")
#: RFC 6381, as far as HLS has them.
_SOUND_CODECS = re.compile(r"(mp4a|ac-[34]|ec-3|opus|flac|alac|dts|mp3)[^,]*", re.IGNORECASE)
_SOUND_FILES = re.compile(r"\.(aac|m4a|mp3|ac3|ec3|cmfa|mp4a)$", re.IGNORECASE)
#: The group of a playlist that no master playlist names.
_ALONE = "hls"
_MIME = re.compile(r"mpegurl|dash\+xml")
_ATTRIBUTE = re.compile(r'([A-Z0-9-]+)=("[^"]*"|[^",]*)')


def is_manifest(mime: str, path: str) -> bool:
    """Whether an answer of this type, or an address with this path, is a manifest."""
    return bool(_MIME.search(mime)) or path.endswith((".mpd", ".m3u8"))


class ManifestError(ValueError):
    """A manifest that cannot be used; one line without the name of the file."""


@dataclass
class DeclaredTrack:
    """A rendition: its rates (bit/s), size (px) and length of segments (s), and the addresses of its segments.

    `group` is equal for the renditions among which a player chooses.
    """

    kind: Kind
    group: str
    name: str
    bandwidth_bps: int
    width: int = 0
    height: int = 0
    segment_s: float = 0.0
    pattern: re.Pattern[str] | None = None
    first: int = 0
    """The number that `pattern` finds in the address of the first segment, or the time, in units of `unit`."""
    unit: float = 1.0
    """How much that number grows per segment."""
    starts: Mapping[int, int] = field(default_factory=dict)
    """The index of a segment by its time."""
    listed: dict[str, int] = field(default_factory=dict)
    """The number of a segment by its address."""

    def index(self, where: str) -> int | None:
        """Return the index of the segment at a `location`, None if the location is not one of this track."""
        if where in self.listed:
            return self.listed[where]
        if self.pattern is None or not (match := self.pattern.fullmatch(where)):
            return None
        number = int(match["number"])
        if self.starts:
            return self.starts.get(number)
        return round((number - self.first) / self.unit)


def location(url: str) -> str:
    """Return an address without its host, which is another one if several servers have the same content.

    It has no report of the player (CMCD).
    """
    parts = urlsplit(url)
    query = _REPORT.sub("", parts.query).removesuffix("&")
    return f"{parts.path}?{query}" if query else parts.path


def is_sound(path: str) -> bool:
    """Whether a segment has sound alone, by the suffix of its path."""
    return bool(_SOUND_FILES.search(path))


def tracks_of(url: str, body: bytes) -> list[DeclaredTrack]:
    """Return the tracks of the manifest at `url`; none if `body` is not a manifest. Raises ManifestError."""
    if len(body) > _LARGEST:
        raise ManifestError(f"a manifest of {len(body) >> 20} MiB")
    start = body.lstrip(b"\xef\xbb\xbf \t\r\n")
    if start.startswith(b"#EXTM3U"):
        return _hls(url, body.decode(errors="replace"))
    if b"<MPD" in start[:4096]:
        return _dash(url, body)
    return []


def _dash(url: str, body: bytes) -> list[DeclaredTrack]:
    if b"<!DOCTYPE" in body or b"<!ENTITY" in body:
        raise ManifestError("an MPD with a document type, which no player reads")
    try:
        mpd = ElementTree.fromstring(body)
    except (ElementTree.ParseError, ValueError, RecursionError) as wrong:
        raise ManifestError(f"the MPD is not XML: {wrong}") from wrong
    for element in mpd.iter():
        element.tag = element.tag.rpartition("}")[2]
    tracks: list[DeclaredTrack] = []
    base = _base(url, mpd)
    periods = [it for it in mpd.findall("Period") if it.find("AdaptationSet") is not None]
    if len(periods) > 1:
        raise ManifestError(f"an MPD of {len(periods)} Periods; record a film without adverts, which has one")
    for period in periods:
        of_period = _base(base, period)
        for number, adaptation in enumerate(period.findall("AdaptationSet")):
            of_set = _base(of_period, adaptation)
            for representation in adaptation.findall("Representation"):
                levels = (period, adaptation, representation)
                track = _representation(f"set {number} of {urlsplit(url).path}", _base(of_set, representation), levels)
                if track:
                    tracks.append(track)
    return tracks


def _base(outer: str, element: ElementTree.Element) -> str:
    return _joined(outer, (element.findtext("BaseURL") or "").strip())


def _joined(base: str, reference: str) -> str:
    """Return the address of a reference (RFC 3986, 5). Raises ManifestError."""
    try:
        return urljoin(base, reference)
    except ValueError as wrong:
        raise ManifestError(f"{reference[:100]!r} is not an address: {wrong}") from wrong


def _representation(group: str, base: str, levels: Sequence[ElementTree.Element]) -> DeclaredTrack | None:
    *_, adaptation, representation = levels
    attributes = {**adaptation.attrib, **representation.attrib}
    said = f"{attributes.get('mimeType', '')} {attributes.get('contentType', '')}"
    kind: Kind | None = "video" if "video" in said else "audio" if "audio" in said else None
    if kind is None:
        return None
    template: dict[str, str] = {}
    timeline = None
    for level in levels:
        if (found := level.find("SegmentTemplate")) is not None:
            template |= found.attrib
            timeline = found.find("SegmentTimeline") if found.find("SegmentTimeline") is not None else timeline
    name = attributes.get("id", "")
    track = DeclaredTrack(
        kind, f"{kind} {group}", name, _whole(attributes, "bandwidth"),
        _whole(attributes, "width"), _whole(attributes, "height"),
    )  # fmt: skip
    if media := template.get("media"):
        scale, first = max(1, _whole(template, "timescale", 1)), _whole(template, "startNumber", 1)
        track.pattern, by_time = _pattern(_joined(base, media), name, track.bandwidth_bps)
        if timeline is not None:
            times, lengths = _times(timeline)
            track.segment_s, track.first = median(lengths) / scale, first
            if by_time and _repeats(timeline):
                track.first, track.unit = times[0], float(lengths[0])
            elif by_time:
                track.starts = {time: index for index, time in enumerate(times)}
        else:
            length = _whole(template, "duration")
            track.segment_s = length / scale
            track.first, track.unit = (0, float(length or 1)) if by_time else (first, 1.0)
    return track


def _pattern(address: str, name: str, bandwidth_bps: int) -> tuple[re.Pattern[str], bool]:
    """Return the pattern of a template's addresses without host, and whether they have times instead of numbers."""
    by_time, named = False, False
    pattern, at = "", 0
    where = location(address)
    for found in _IDENTIFIER.finditer(where):
        pattern += re.escape(where[at : found.start()])
        at = found.end()
        known = {"RepresentationID": name, "Bandwidth": f"{bandwidth_bps:0{found[2] or 0}d}", "": "$"}
        if found[1] in known:
            pattern += re.escape(known[found[1]])
        else:
            # Possessive: adjacent numbers would be tried in every way.
            pattern += f"{_DIGITS}+" if named else f"(?P<number>{_DIGITS}+)"
            by_time, named = found[1] == "Time", True
    if not named:
        raise ManifestError("a template of segments without $Number$ or $Time$")
    return re.compile(pattern + re.escape(where[at:])), by_time


def _repeats(timeline: ElementTree.Element) -> bool:
    """Whether its one run of segments lasts to the end of the film (a negative count, ISO/IEC 23009-1, 5.3.9.6)."""
    runs = timeline.findall("S")
    return len(runs) == 1 and _repeated(runs[0]) < 0


def _times(timeline: ElementTree.Element) -> tuple[list[int], list[int]]:
    """Return the times and lengths of all segments (ISO/IEC 23009-1, 5.3.9.6). Raises ManifestError."""
    times: list[int] = []
    lengths: list[int] = []
    now = 0
    runs = timeline.findall("S")
    for run, following in zip(runs, [*runs[1:], None], strict=True):
        now, length, more = _whole(run.attrib, "t", now), _whole(run.attrib, "d"), _repeated(run)
        if not length:
            raise ManifestError("a timeline of segments without lengths")
        if more < 0:
            left = MOST_SEGMENTS if following is None else -(-(_whole(following.attrib, "t") - now) // length)
            if left <= 0:
                raise ManifestError("a timeline of segments that repeat to a time that has passed")
            more = left - 1
        if len(times) + more >= _MOST_DECLARED:
            raise ManifestError(f"an MPD of more than {_MOST_DECLARED} segments")
        for _ in range(more + 1):
            times.append(now)
            lengths.append(length)
            now += length
    if not lengths:
        raise ManifestError("a timeline without segments")
    return times, lengths


def _repeated(run: ElementTree.Element) -> int:
    """Return how often a segment of a timeline is repeated; below 0: to the next one, or to the end of the film."""
    text = run.attrib.get("r", "")
    return -1 if re.fullmatch(r"-\d{1,18}", text) else _whole(run.attrib, "r")


def _whole(attributes: Mapping[str, str], name: str, otherwise: int = 0) -> int:
    text = attributes.get(name, "")
    if not text:
        return otherwise
    if not re.fullmatch(_DIGITS, text):
        raise ManifestError(f"{name}={text[:20]!r} is not a whole number")
    return int(text)


def _hls(url: str, text: str) -> list[DeclaredTrack]:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if any(line.startswith("#EXT-X-STREAM-INF") for line in lines):
        return list(_variants(url, lines))
    track = DeclaredTrack("video", _ALONE, location(url), 0)
    number, lengths, length, sound = 0, [], 0.0, True
    for line in lines:
        tag, _, value = line.partition(":")
        if tag == "#EXT-X-MEDIA-SEQUENCE" and value.isdecimal() and len(value) < 19:
            number = int(value)
        elif tag == "#EXTINF":
            length = _seconds(value.partition(",")[0])
        elif not line.startswith("#"):
            where = location(_joined(url, line))
            track.listed[where] = number
            sound = sound and is_sound(where.partition("?")[0])
            lengths.append(length)
            number += 1
    if lengths:
        track.segment_s = median(lengths)
        track.kind = "audio" if sound else "video"
    return [track]


def _variants(url: str, lines: Sequence[str]) -> Iterator[DeclaredTrack]:
    group = f"{_ALONE} of {urlsplit(url).path}"
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        tag, _, value = line.partition(":")
        given = {name: text.strip('"') for name, text in _ATTRIBUTE.findall(value)}
        if tag == "#EXT-X-STREAM-INF" and not following.startswith("#"):
            width, _, height = given.get("RESOLUTION", "0x0").partition("x")
            codecs = given.get("CODECS", "")
            sound = bool(codecs) and all(_SOUND_CODECS.fullmatch(it.strip()) for it in codecs.split(","))
            yield DeclaredTrack(
                "audio" if sound else "video", group, location(_joined(url, following)), _whole(given, "BANDWIDTH"),
                _whole({"width": width}, "width"), _whole({"height": height}, "height"),
            )  # fmt: skip
        elif tag == "#EXT-X-MEDIA" and given.get("TYPE") == "AUDIO" and given.get("URI"):
            yield DeclaredTrack("audio", group, location(_joined(url, given["URI"])), 0)


def _seconds(text: str) -> float:
    if not re.fullmatch(r"\d{1,6}(\.\d{1,9})?", text.strip()):
        raise ManifestError(f"#EXTINF:{text[:20]!r} is not a length")
    return float(text)


def merged(manifests: Sequence[Sequence[DeclaredTrack]]) -> list[DeclaredTrack]:
    """Return the tracks of all manifests of a recording: HLS's playlists belong to the variants of a master playlist.

    A playlist or MPD that was loaded again adds its segments. Raises ManifestError for too many renditions.
    """
    tracks: dict[tuple[str, str], DeclaredTrack] = {}
    declared = (track for manifest in manifests for track in manifest)
    for track in sorted(declared, key=lambda it: it.group == _ALONE):  # what master playlists name comes first
        key = (_ALONE if track.group.startswith(_ALONE) else track.group, track.name)
        if (known := tracks.setdefault(key, track)) is track:
            continue
        known.kind = "audio" if track.kind == "audio" else known.kind
        known.listed |= track.listed
        known.starts = {**known.starts, **track.starts}
        known.segment_s = known.segment_s or track.segment_s
        known.bandwidth_bps = known.bandwidth_bps or track.bandwidth_bps
        known.width, known.height = known.width or track.width, known.height or track.height
    if len(tracks) > _MOST_TRACKS:
        raise ManifestError(f"manifests of {len(tracks)} renditions; there are at most {_MOST_TRACKS}")
    for track in tracks.values():
        track.starts = {time: index for index, time in enumerate(sorted(track.starts))}
    return list(tracks.values())
