# SPDX-License-Identifier: Apache-2.0
"""The SABR stand-in: a film whose server chooses the renditions, by a named policy."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlencode

from sojourn.apps.base import Mode, ServiceError, Stage
from sojourn.apps.browsers.browser import Browser
from sojourn.apps.iptv import wait_playing
from sojourn.apps.options import ServiceOptions
from sojourn.apps.page_service import PageService
from sojourn.apps.standins import http1
from sojourn.apps.standins.clip import SEGMENT_SECONDS, Clip, ClipError
from sojourn.apps.standins.origin import OriginError, Site
from sojourn.apps.standins.sabr import sound
from sojourn.apps.standins.sabr.page import client_version, ensure_page
from sojourn.apps.standins.sabr.policies import REQUEST_S, least_readahead_s

_SOUND_ITAG = 100


class SabrStandIn(PageService):
    """A film on demand."""

    name = "sabr"
    watched = "Video"
    brand = "SABR"
    takes: ClassVar[Mapping[str, tuple[Mode, ...]]] = {
        "sabr-policy": ("stand-in",),
        "origin-pacing": ("stand-in",),
        "buffer": ("stand-in",),
        "origin-cc": ("stand-in",),
        "clip": ("stand-in",),
        "ladder": ("stand-in",),
    }

    def __init__(self, *, policy: str = "hybrid", pacing: str = "none", **of_page: Any) -> None:
        """`policy`: a name in `sojourn.apps.options.SABR_POLICIES`, `pacing`: none or sammy.

        For `of_page` see PageService. Raises ServiceError for a buffer that its server cannot keep filled.
        """
        super().__init__(**of_page)
        if self.buffer < (least := least_readahead_s(SEGMENT_SECONDS)):
            raise ServiceError(
                f"--buffer={self.buffer:g}: --service=sabr buffers an answer of {REQUEST_S:g} s, and a segment of "
                f"{SEGMENT_SECONDS} s to play while it comes; give --buffer={least:g} or more",
                code="out-of-range",
            )
        self.policy, self.pacing = policy, pacing
        self.ladder = tuple(f"{rung.height}p" for rung in self._rungs)
        self._sound: Path | None = None
        self._script: Path | None = None

    @classmethod
    def page_options(cls, options: ServiceOptions) -> dict[str, Any]:
        return {"policy": options.sabr_policy, "pacing": options.origin_pacing}

    def prepare(self, progress: Callable[[float], None] | None = None) -> None:
        super().prepare(progress)
        try:
            self._script, self._sound = ensure_page(), sound.ensure_sound(self.encoder)
        except (ClipError, OriginError) as error:
            raise ServiceError(str(error), code=error.code) from error

    @property
    def prepared(self) -> dict[str, Any]:
        return super().prepared | {"sound": self._sound, "script": self._script}

    def take(self, prepared: Mapping[str, Any]) -> None:
        super().take(prepared)
        self._sound, self._script = Path(prepared["sound"]), Path(prepared["script"])

    def site(self, stage: Stage, clip: Clip) -> tuple[Site, str]:
        raise ServiceError("--service=sabr has an origin of its own", code="unsupported")

    def address(self) -> tuple[str, tuple[str, ...]]:
        raise ServiceError("--service=sabr has no address", code="unsupported")

    def serve(self, stage: Stage) -> tuple[str, dict[str, Any]]:
        if not self._ready or not self._script:
            self.prepare()
        assert self._clip and self._script and self._sound
        self.set_congestion_control(stage)
        film = self._formats(self._clip, self._sound)
        self._origin, url, trusted = http1.start(stage, "sabr", film, [self._script])
        rungs = (f"{n}:{rung.height}:{bps}" for n, (rung, bps) in enumerate(self._rates(self._clip), 1))
        return f"{url}/watch?{urlencode({'rungs': ','.join(rungs)})}", trusted

    @staticmethod
    def _rates(clip: Clip) -> Any:
        return zip(clip.ladder, clip.rates, strict=True)

    def _formats(self, clip: Clip, heard: Path) -> dict[str, Any]:
        """Return what the server has, as its JSON; the formats have their place in the ladder, from 1 on, as itag."""
        from sojourn.apps.standins.sabr.server import SabrFormat, ServedFilm  # with aiohttp, which loads slowly

        codecs = re.findall(r'codecs="([^"]+)"', clip.manifest.read_text())
        seconds = clip.seconds
        pictures = tuple(
            SabrFormat(
                itag=index + 1, folder=str(clip.folder / str(index)), mime=f'video/mp4; codecs="{codecs[index]}"',
                rate_bps=bps, height=rung.height, segment_s=SEGMENT_SECONDS,
                loop=clip.frames // clip.fps // SEGMENT_SECONDS, last=seconds // SEGMENT_SECONDS,
            )
            for index, (rung, bps) in enumerate(self._rates(clip))
        )  # fmt: skip
        voice = SabrFormat(
            itag=_SOUND_ITAG, folder=str(heard), mime=sound.MIME, rate_bps=sound.RATE_BPS, height=0,
            segment_s=sound.SEGMENT_S, loop=sound.LOOP, last=int(seconds // sound.SEGMENT_S),
        )  # fmt: skip
        return asdict(ServedFilm(pictures, voice, self.policy, self.buffer, self.pacing))

    def await_playing(self, browser: Browser) -> None:
        wait_playing(browser, "", None)

    @property
    def facts(self) -> dict[str, Any]:
        return super().facts | {"sabr": {"policy": self.policy, "readahead_s": self.buffer, "pacing": self.pacing}}

    @property
    def player(self) -> str:
        return f"SABR stand-in, {self.policy}, googlevideo {client_version()}"

    def origin_version(self, stage: Stage) -> dict[str, str]:
        return http1.origin_version()
