# SPDX-License-Identifier: Apache-2.0
"""Players that can be chosen for a stand-in's film: each is a script of apps/standins/players and a package of npm."""

from __future__ import annotations

import json
import re
import shutil
import time
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, Literal
from urllib.parse import urlencode

from sojourn.apps.base import Mode, ServiceError
from sojourn.apps.page_service import PageService
from sojourn.apps.standins.clip import SEGMENT_SECONDS, Clip
from sojourn.apps.standins.hls import window_segments, write_playlists
from sojourn.apps.standins.origin import HERE, PLAYERS, OriginError, Site, _npm_ci, player_version
from sojourn.hardware.build_tool import ended
from sojourn.hardware.machine import cache
from sojourn.hardware.machine.cache import BuildError

SCRIPTS = HERE / "players"
SHOWN = "() => window.player ? [window.player.shown(), window.player.best()] : [0, 0]"
"""The script that returns the height of the picture and that of the best rendition, in lines."""
#: npm package: its browser script and its licence. dash.js and hls.js are those of the services' own pages.
_PACKAGES = {
    "rx-player": ("dist/rx-player.min.js", "LICENSE"),
    "shaka-player": ("dist/shaka-player.compiled.js", "LICENSE"),
    "video.js": ("dist/video.min.js", "LICENSE"),
}
#: What names the modules of RxPlayer's package that esbuild makes one script of.
_MODULES = "rx-player-bundle.js"
#: Behind the live edge, HTTP Live Streaming's least distance (RFC 8216bis, 4.4.3.8), in segments.
_LEAST_BEHIND = 3


@dataclass(frozen=True)
class Player:
    """A player: its npm package, its script in `SCRIPTS`, its form of manifest, and its rule of adaptation, if any."""

    package: str
    script: str
    form: Literal["dash", "hls"]
    rule: str = ""

    @property
    def library(self) -> str:
        """The name of the package's script."""
        return Path((PLAYERS | _PACKAGES)[self.package][0]).name

    @property
    def version(self) -> str:
        """The pinned version, such as "dashjs 5.2.1, bola"."""
        found = player_version(self.package) if self.package in PLAYERS else f"{self.package} {_pinned(self.package)}"
        return f"{found}, {self.rule}" if self.rule else found


BY_NAME = {
    **{f"dash-{rule}": Player("dashjs", "dash.js", "dash", rule)
       for rule in ("dynamic", "bola", "throughput", "l2a", "lolp")},
    "shaka": Player("shaka-player", "shaka.js", "dash"),
    "hls.js": Player("hls.js", "hls.js", "hls"),
    "rx-player": Player("rx-player", "rx-player.js", "dash"),
    "video.js": Player("video.js", "video.js", "hls"),
}  # fmt: skip
"""The players by their name in `--player`."""


class ChosenPlayer(PageService):
    """A stand-in whose film another player can play."""

    takes: ClassVar[Mapping[str, tuple[Mode, ...]]] = {**PageService.takes, "player": ("stand-in",)}
    #: Whether the film is a broadcast.
    live_film: ClassVar[bool]

    def __init__(self, *, player: str | None = None, **of_page: Any) -> None:
        """`player`: one of BY_NAME; None: the service's own. For `of_page` see PageService.

        Raises ServiceError for options that do not fit.
        """
        super().__init__(**of_page)
        self.chosen = player
        least = _LEAST_BEHIND * SEGMENT_SECONDS
        if player == "video.js" and self.live_film and self.buffer < least:
            raise ServiceError(
                f"--buffer={self.buffer:g}: video.js stays at least {least} s behind a broadcast; give "
                f"--buffer={least} or more, or another --player",
                code="out-of-range",
            )

    def prepare(self, progress: Callable[[float], None] | None = None) -> None:
        super().prepare(progress)
        try:
            if self.chosen:
                ensure_players()
        except OriginError as error:
            raise ServiceError(str(error), code=error.code) from error

    def chosen_site(self, run: Path, clip: Clip, offered: Sequence[int]) -> tuple[Site, str]:
        """Return what the origin serves for the chosen player, and its page's path; writes manifests to `run`/live.

        `offered` are indices into the clip's ladder.
        """
        assert self.chosen
        player, folder = BY_NAME[self.chosen], run / "live"
        if self.live_film:
            manifest = _write_broadcast(folder, player, clip, offered, self.buffer)
        else:
            manifest = _write_film(folder, player, clip, offered)
        rungs = zip(clip.ladder, clip.rates, strict=True)
        query = {
            "player": player.script,
            "library": player.library,
            "rule": player.rule,
            "manifest": manifest,
            "buffer": f"{self.buffer:g}",
            "rungs": ",".join(f"{rung.height}:{rate}" for rung, rate in rungs),
            "offered": ",".join(map(str, offered)),
        }
        return Site(ensure_players(), clip.folder, folder, film=True), f"/watch?{urlencode(query)}"

    @property
    def player(self) -> str:
        return BY_NAME[self.chosen].version if self.chosen else self.own_player

    @property
    @abstractmethod
    def own_player(self) -> str:
        """Name and version of the service's own player."""


def ensure_players() -> Path:
    """Return the folder of the page of chosen players: its scripts, and the packages that npm installs on first use.

    Raises OriginError if npm or esbuild fails.
    """
    page = [file for file in _files() if file.suffix in (".html", ".js") and file.name != _MODULES]
    recipe = cache.digest([("packages", _recipe().encode()), *((file.name, file.read_bytes()) for file in page)])

    def compose(folder: Path) -> None:
        for file in (*page, *_ensure_packages().iterdir()):
            shutil.copy(file, folder)
        cache.normalise_mtimes(folder)

    return cache.build_once(cache.root() / "web" / f"players-{recipe[:16]}", compose)


def _files() -> list[Path]:
    return sorted(file for file in SCRIPTS.iterdir() if file.is_file())


def _recipe() -> str:
    files = (SCRIPTS / "package-lock.json", SCRIPTS / _MODULES)
    known = [("packages", repr(_PACKAGES).encode()), *((file.name, file.read_bytes()) for file in files)]
    return cache.digest(known)[:16]


def _ensure_packages() -> Path:
    """Return the folder of the packages' scripts and licences, as package-lock.json pins them."""
    return cache.build_once(cache.root() / "web" / f"packages-{_recipe()}", _install)


def _install(folder: Path) -> None:
    used = ("package.json", "package-lock.json", _MODULES)
    for name in used:
        shutil.copy(SCRIPTS / name, folder)
    _npm_ci(folder)
    modules = folder / "node_modules"
    _bundle(folder, modules / "rx-player" / _PACKAGES["rx-player"][0])
    for package, (script, licence) in _PACKAGES.items():
        shutil.copy(modules / package / script, folder)
        shutil.copy(modules / package / licence, folder / f"{package}.{licence}")
    shutil.rmtree(modules)
    for name in used:
        (folder / name).unlink()
    cache.normalise_mtimes(folder)


def _bundle(folder: Path, script: Path) -> None:
    """Make one script of RxPlayer's package, which has modules only."""
    program = next((folder / "node_modules/@esbuild").glob("*/bin/esbuild"), None)
    if program is None:
        raise OriginError("npm has no esbuild for this machine, which bundles RxPlayer", code="unsupported")
    command = [str(program), str(folder / _MODULES), "--bundle", "--minify", "--format=iife"]
    try:
        done = ended([*command, "--legal-comments=inline", f"--outfile={script}"])
    except BuildError as error:
        raise OriginError(f"esbuild could not bundle RxPlayer: {error}", code=error.code) from error
    if done.returncode:
        raise OriginError(f"esbuild could not bundle RxPlayer: {done.stderr.strip().splitlines()[0]}")


def _pinned(package: str) -> str:
    lock = json.loads((SCRIPTS / "package-lock.json").read_text())
    return str(lock["packages"][f"node_modules/{package}"]["version"])


def pinned_players() -> dict[str, str]:
    """Return the versions of the packages of `SCRIPTS` by name."""
    return {package: _pinned(package) for package in _PACKAGES}


def _write_film(folder: Path, player: Player, clip: Clip, offered: Sequence[int]) -> str:
    """Write the manifests of a film on demand into `folder`, and return the path of the one to play."""
    write_playlists(folder, clip, offered, window_segments(0))
    segments = range(1, clip.seconds // SEGMENT_SECONDS + 1)
    for index in offered:
        lines = [
            "#EXTM3U", "#EXT-X-VERSION:7", f"#EXT-X-TARGETDURATION:{SEGMENT_SECONDS}", "#EXT-X-PLAYLIST-TYPE:VOD",
            "#EXT-X-INDEPENDENT-SEGMENTS", f'#EXT-X-MAP:URI="/media/{index}/init.mp4"',
            *(f"#EXTINF:{SEGMENT_SECONDS}.0,\n/media/{index}/{number}.m4s" for number in segments),
            "#EXT-X-ENDLIST",
        ]  # fmt: skip
        (folder / f"{index}.m3u8").write_text("\n".join(lines) + "\n")
    return "live/master.m3u8" if player.form == "hls" else "media/manifest.mpd"


def _write_broadcast(folder: Path, player: Player, clip: Clip, offered: Sequence[int], behind_s: float) -> str:
    """Write the manifests of a broadcast that begins now into `folder`, and return the path of the one to play.

    Players stay `behind_s` (s) behind the end of the newest segment.
    """
    window, now = window_segments(behind_s), time.time()
    write_playlists(folder, clip, offered, window, now)
    for index in offered:
        playlist = folder / f"{index}.m3u8"
        control = f"#EXTM3U\n#EXT-X-SERVER-CONTROL:HOLD-BACK={behind_s:g}"
        playlist.write_text(playlist.read_text().replace("#EXTM3U", control, 1))
    start = now - window * SEGMENT_SECONDS
    (folder / "live.mpd").write_text(live_mpd(clip.manifest.read_text(), offered, start, window, behind_s))
    return "live/master.m3u8" if player.form == "hls" else "live/live.mpd"


def live_mpd(film: str, offered: Sequence[int], start: float, window: int, behind_s: float) -> str:
    """Return the MPD of a broadcast (ISO/IEC 23009-1, 5.3.1.2) whose first segment began at `start`, Unix s.

    `film` is the MPD of a film on demand whose Representations have their index as id; those in `offered` remain.
    `window` segments stay available. A player is to play `behind_s` (s) behind the end of the newest segment, which
    lies up to a segment in the past.
    """
    began = datetime.fromtimestamp(round(start, 3), UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    attributes = {
        "type": "dynamic",
        "availabilityStartTime": began,
        "publishTime": began,
        "timeShiftBufferDepth": f"PT{window * SEGMENT_SECONDS}S",
        "suggestedPresentationDelay": f"PT{behind_s + SEGMENT_SECONDS:g}S",
    }
    text = re.sub(r'\s+mediaPresentationDuration="[^"]*"', "", film, count=1)
    text = text.replace('type="static"', "\n\t".join(f'{name}="{value}"' for name, value in attributes.items()), 1)
    text = text.replace("</ProgramInformation>", "</ProgramInformation>\n\t<BaseURL>/media/</BaseURL>", 1)
    left_out = (rf'\s*<Representation id="{index}".*?</Representation>' for index in _others(film, offered))
    for representation in left_out:
        text = re.sub(representation, "", text, flags=re.DOTALL)
    return text


def _others(film: str, offered: Sequence[int]) -> list[int]:
    """Return the ids of the Representations of an MPD that are not offered."""
    return [index for index in map(int, re.findall(r'<Representation id="(\d+)"', film)) if index not in offered]
