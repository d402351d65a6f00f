# SPDX-License-Identifier: Apache-2.0
"""The profile of a video service, and its file, which `sojourn profile` writes and anyone may edit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from sojourn.apps.standins.har import Codepoint
from sojourn.hardware.machine import cache
from sojourn.hardware.machine.errors import CodedError
from sojourn.hardware.machine.messages import first_wrong, printable
from sojourn.hardware.machine.toml_file import TomlError, read_toml

MOST_SEGMENTS = 5_000
MOST_RENDITIONS = 16
_Sizes = Annotated[tuple[Annotated[int, Field(ge=1, le=1 << 28)], ...], Field(min_length=1, max_length=MOST_SEGMENTS)]
_Rate = Annotated[int, Field(ge=1_000, le=1_000_000_000)]
_Text = Annotated[str, Field(max_length=200)]
_HEAD = """\
# A video service as a recording shows it, by `sojourn profile`. EXPERIMENTAL: see docs/profile.md.
# Sizes in bytes, rates in bit/s, lengths in s, pictures in px. You may edit this file.
"""


class ServiceProfileError(CodedError):
    """A profile that cannot be used or made; one line."""


class Rendition(BaseModel):
    """A rendition of the picture: the rate that its manifest declares, and the size of each segment."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    height: Annotated[int, Field(ge=48, le=4320)]
    bandwidth: _Rate
    recorded: Annotated[int, Field(ge=0)] = 0
    """How many of the sizes were recorded; the others are estimated from those of other renditions."""
    sizes: _Sizes

    @property
    def width(self) -> int:
        """Of a picture of 16:9, px."""
        return round(self.height * 16 / 9 / 2) * 2


class SoundTrack(BaseModel):
    """The sound, if its segments are apart from the picture's."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    bandwidth: _Rate
    segment_s: Annotated[float, Field(ge=0.5, le=30)]
    recorded: Annotated[int, Field(ge=0)] = 0
    sizes: _Sizes


class Visible(BaseModel):
    """What the recording shows of requests and the path; a run does not use it."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    requests: Annotated[int, Field(ge=0)] = 0
    """Of segments."""
    request_bytes: Annotated[int, Field(ge=0)] | None = None
    """Median size of a request with its head."""
    pause_s: Annotated[float, Field(ge=0)] | None = None
    """Median time from the end of an answer to the next request, where the player waits."""
    receive_bps: Annotated[int, Field(ge=0)] | None = None
    """Median rate at which an answer arrives."""
    rtt_ms: Annotated[float, Field(ge=0)] | None = None
    """Least time of TCP's handshake."""
    first_byte_ms: Annotated[float, Field(ge=0)] | None = None
    """Least time from a request to its answer: the round trip and the server."""
    ecn: Codepoint | None = None
    """ECN codepoint of most packets that the server sent; only captures of packets show this and the next."""
    ce_share: Annotated[float, Field(ge=0, le=1)] | None = None
    """Share of the server's ECN-capable packets that a queue marked CE."""


class ServiceProfile(BaseModel):
    """What a run plays: a film of these renditions and sizes, through a player that buffers as long."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    profile: Literal[1]
    """The version of the format."""
    service: _Text
    recorder: _Text = ""
    recorded: _Text = ""
    protocol: _Text = ""
    segment_s: Annotated[float, Field(ge=0.5, le=30)]
    buffer_s: Annotated[float, Field(ge=2, le=120)]
    rendition: Annotated[tuple[Rendition, ...], Field(min_length=1, max_length=MOST_RENDITIONS)]
    sound: SoundTrack | None = None
    visible: Visible = Visible()

    @model_validator(mode="after")
    def _in_order(self) -> ServiceProfile:
        rates = [it.bandwidth for it in self.rendition]
        if rates != sorted(set(rates)):
            raise ValueError("the bandwidths of the renditions must ascend")
        if len({len(it.sizes) for it in self.rendition}) > 1:
            raise ValueError("every rendition must have the same number of sizes")
        return self

    @property
    def digest(self) -> str:
        """A digest of what a run plays."""
        return cache.digest([("profile", self.model_dump_json(exclude={"visible"}).encode())])


def read_profile(file: Path) -> ServiceProfile:
    """Read a profile. Raises ServiceProfileError."""
    try:
        return ServiceProfile.model_validate_json(json.dumps(read_toml(file), default=str))
    except OSError as wrong:
        raise ServiceProfileError(f"{file}: {wrong.strerror}", code="unreadable-file") from wrong
    except TomlError as wrong:
        raise ServiceProfileError(f"{file}: {wrong}", code="damaged") from wrong
    except ValidationError as wrong:
        said = printable(first_wrong(wrong))[:300]
        raise ServiceProfileError(f"{file}: not a service profile: {said}", code="invalid-value") from wrong


def profile_text(profile: ServiceProfile) -> str:
    """Return the text of a profile's file, TOML."""
    known = profile.model_dump(mode="json", exclude_none=True)
    renditions, sound, visible = known.pop("rendition"), known.pop("sound", None), known.pop("visible")
    parts = [_HEAD, _table(known), "\n[visible]\n", _table(visible)]
    for rendition in renditions:
        parts += ["\n[[rendition]]\n", _table(rendition)]
    if sound:
        parts += ["\n[sound]\n", _table(sound)]
    return "".join(parts)


def _table(known: dict[str, object]) -> str:
    return "".join(f"{name} = {_value(value)}\n" for name, value in known.items())


def _value(value: object) -> str:
    if isinstance(value, list):
        rows = (", ".join(map(str, value[at : at + 12])) for at in range(0, len(value), 12))
        return "[\n" + "".join(f"  {row},\n" for row in rows) + "]"
    if isinstance(value, str):
        return json.dumps(printable(value), ensure_ascii=False)
    return repr(value)
