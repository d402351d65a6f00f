# SPDX-License-Identifier: Apache-2.0
"""Sojourn's film, or the user's, in segments of given sizes: encoded to less, and filled up with zeros."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from sojourn.apps.standins.clip import (
    DELIMITERS,
    FPS,
    Clip,
    ClipError,
    Encoder,
    Progress,
    _encode,
    _options,
    _pictures,
    _strip,
    shift,
    timescale,
)
from sojourn.apps.standins.film import Film, FilmError
from sojourn.apps.standins.ladder import Rung
from sojourn.apps.standins.profile.recorded import Rendition, ServiceProfile
from sojourn.hardware.machine import cache
from sojourn.scoring.picture.strip import Box

#: Pictures until the film begins again, s.
_PICTURES_S = 60
#: Share of the encoder's buffer in a segment: so much more than its rate a segment can have.
_SLACK = 0.25
#: The encoder needs this much, bit per pixel of the film; darker segments of a service may have less.
_LEAST_BITS = 0.004
#: The encoded film of a profile, next to the segments of the profile's sizes.
_BASE = "base"


@dataclass(frozen=True)
class SizedFilm:
    """A film in segments of given sizes, and how many of them are larger because the pictures need more."""

    clip: Clip
    segment_s: float
    larger: int


def ensure_sized_film(
    profile: ServiceProfile,
    progress: Progress | None = None,
    film_seconds: int = 660,
    own: Film | None = None,
    *,
    encoder: Encoder,
) -> SizedFilm:
    """Return the film of a profile, encoding it first if it is not in the cache.

    A film of at least `film_seconds` repeats its pictures each minute, and the sizes when they end. Raises ClipError.
    """
    try:
        return _ensured(profile, progress or (lambda share: None), film_seconds, own, encoder)
    except FilmError as wrong:
        raise ClipError(str(wrong), code=wrong.code) from wrong


def _ensured(
    profile: ServiceProfile, progress: Progress, film_seconds: int, own: Film | None, encoder: Encoder
) -> SizedFilm:
    from sojourn.apps.standins import scenes  # with OpenCV, which loads slowly

    of_segment = max(1, round(profile.segment_s * FPS))
    pictures_s = own.seconds if own else _PICTURES_S
    unique = max(1, round(pictures_s * FPS / of_segment))
    if own and unique * of_segment > own.seconds * FPS:
        unique = max(1, unique - 1)
    frames = unique * of_segment
    ladder = tuple(_encoded(rendition, profile.segment_s) for rendition in profile.rendition)
    size = (ladder[-1].width, ladder[-1].height) if own else (scenes.WIDTH, scenes.HEIGHT)
    strips = [_strip(index, frames) for index in range(len(ladder))]
    recipe = hashlib.sha256(repr((_command(Path(), ladder, size, of_segment), strips, encoder.version)).encode())
    recipe.update(own.digest.encode() if own else Path(scenes.__file__).read_bytes())
    base = cache.root() / "clip" / f"sized-{recipe.hexdigest()[:16]}"

    def encode(work: Path) -> None:
        command = [*encoder.command, *_command(work, ladder, size, of_segment)]
        pictures = islice(_pictures(-(-frames // FPS), size, own), frames)
        _encode(command, work, pictures, strips, progress)

    cache.build_once(base, encode)
    segments = -(-film_seconds * FPS // of_segment)
    sizes = [rendition.sizes for rendition in profile.rendition]
    layout = cache.digest([("sizes", repr((sizes, segments)).encode()), ("declared", profile.digest.encode())])[:16]
    film = base.with_name(f"{base.name}-{layout}")
    cache.build_once(film, lambda work: _lay_out(base, work, profile, unique, of_segment, segments))
    larger = int((film / "larger").read_text())
    rates = tuple(rendition.bandwidth for rendition in profile.rendition)
    seconds = segments * of_segment // FPS
    return SizedFilm(
        Clip(film, ladder, frames, FPS, seconds, rates, own.digest if own else ""), of_segment / FPS, larger
    )


def _encoded(rendition: Rendition, segment_s: float) -> Rung:
    """Return the rung to encode: no segment larger than the smallest of the service, by the encoder's buffer.

    Its lines are even, as the encoder requires of pictures with half the lines of colour (4:2:0).
    """
    height = rendition.height // 2 * 2
    least_bps = round(rendition.width * height * FPS * _LEAST_BITS)
    bps = int(min(rendition.sizes) * 8 / segment_s / (1 + _SLACK) * 0.9)
    return Rung(f"{rendition.height}p", rendition.width, height, max(least_bps, bps))


def _command(folder: Path, ladder: Sequence[Rung], size: tuple[int, int], of_segment: int) -> list[str]:
    """Return the options of the clip's ffmpeg with this length of segments, and rates that no segment exceeds."""
    options = _options(folder, ladder, size)
    changed = {"-g": str(of_segment), "-keyint_min": str(of_segment), "-seg_duration": f"{of_segment / FPS:.6f}"}
    graph = options[options.index("-filter_complex") + 1]
    for index, rung in enumerate(ladder):
        # Of a strip with an odd number of lines, such as that of 540, ffmpeg crops one more off the picture.
        box = Box.bottom(rung.width, rung.height)
        top = box.y // 2 * 2
        graph = graph.replace(f":{box.y}:0:0[top{index}]", f":{top}:0:0[top{index}]")
        end = f":flags=neighbor[strip{index}]"
        graph = graph.replace(f":{box.height}{end}", f":{rung.height - top}{end}")
        changed |= {f"-maxrate:v:{index}": str(rung.bps)}
        changed |= {f"-bufsize:v:{index}": str(round(rung.bps * of_segment / FPS * _SLACK))}
    changed["-filter_complex"] = graph
    return [changed.get(before, word) for before, word in zip(["", *options], options, strict=False)]


def _lay_out(base: Path, film: Path, profile: ServiceProfile, unique: int, of_segment: int, segments: int) -> None:
    """Write every segment as a template: a head of its own, the pictures of the encoded one, zeros up to its size.

    The zeros are at the end of the segment's media data (mdat), where no sample is; in the file they take no space.
    """
    larger = 0
    for index, rendition in enumerate(profile.rendition):
        source, target = base / str(index), film / str(index)
        encoded = film / _BASE / str(index)
        target.mkdir()
        encoded.mkdir(parents=True)
        os.link(source / "init.mp4", target / "init.mp4")
        ticks = unique * of_segment * timescale((source / "init.mp4").read_bytes()) // FPS
        for number in range(1, unique + 1):
            os.link(source / f"{number}.m4s", encoded / f"{number}.m4s")
            if DELIMITERS[0].encode() in (original := (source / f"{number}.m4s").read_bytes()):
                raise ClipError(f"segment {number} of rendition {index} contains {DELIMITERS[0]}", code="damaged")
            for place in range(number, segments + 1, unique):
                again = (place - 1) // unique
                wanted = rendition.sizes[(place - 1) % len(rendition.sizes)]
                more = max(0, wanted - len(original))
                larger += wanted < len(original)
                segment = filled(shift(original, again * ticks, again * unique), more)
                head = segment.index(b"mdat")
                rest = f'substr {head} -1 (include "/{_BASE}/{index}/{number}.m4s")'
                with (target / f"{place}.m4s").open("wb") as file:
                    file.write(segment[:head] + f"{DELIMITERS[0]}{rest}{DELIMITERS[1]}".encode())
                    file.truncate(file.tell() + more)
    (film / "larger").write_text(str(larger))
    rates = {index: rendition.bandwidth for index, rendition in enumerate(profile.rendition)}
    text = mpd((base / "manifest.mpd").read_text(), rates, of_segment, segments)
    (film / "manifest.mpd").write_text(text)
    cache.normalise_mtimes(film)


def filled(segment: bytes, more: int) -> bytes:
    """Return the head of a segment of one movie fragment whose media data is `more` bytes longer, and its media.

    Changes the sizes in mdat and sidx (ISO/IEC 14496-12, 8.1.1, 8.16.3).
    """
    data = bytearray(segment)

    def add(at: int) -> None:
        data[at : at + 4] = (int.from_bytes(data[at : at + 4], "big") + more).to_bytes(4, "big")

    media = data.index(b"mdat")
    add(media - 4)
    if (index := data.find(b"sidx", 0, media)) >= 0:
        # After the version: reference_ID, timescale, earliest_presentation_time, first_offset, reserved and count.
        add(index + 4 + 4 + 4 + 4 + (16 if data[index + 4] else 8) + 4)
    return bytes(data)


def mpd(text: str, rates: Mapping[int, int], of_segment: int, segments: int) -> str:
    """Return the MPD of a film from the encoder's, with the declared `rates` and this number of segments."""
    seconds = f"PT{segments * of_segment / FPS:g}S"
    text = re.sub(r'mediaPresentationDuration="[^"]*"', f'mediaPresentationDuration="{seconds}"', text)
    text = re.sub(r'(<Period [^>]*?) duration="[^"]*"', r"\1", text)
    if of_segment * 1_000_000 % FPS:  # the encoder rounds to 1 us, and a player would drift
        text = re.sub(r'timescale="\d+" duration="\d+"', f'timescale="{FPS}" duration="{of_segment}"', text)
    for index, rate in rates.items():
        text = re.sub(rf'(<Representation id="{index}"[^>]*? bandwidth=")\d+"', rf'\g<1>{rate}"', text)
    return text
