# SPDX-License-Identifier: Apache-2.0
"""Players that can be chosen for a stand-in's film: each is a script of apps/standins/players and a package of npm."""

from __future__ import annotations

import json
import shutil
import sys
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal
from urllib.parse import urlencode

from sojourn.apps.base import Mode, ServiceError, Stage
from sojourn.apps.manifests import write_broadcast, write_film, write_low_latency
from sojourn.apps.page_service import PageService
from sojourn.apps.standins.clip import SEGMENT_SECONDS, Clip
from sojourn.apps.standins.origin import (
    HERE,
    HOST,
    PLAYERS,
    Origin,
    OriginError,
    Site,
    _npm_ci,
    ensure_certificate,
    ensure_player,
    player_version,
    set_congestion_control,
    set_ecn_of,
)
from sojourn.hardware.build_tool import ended
from sojourn.hardware.machine import cache
from sojourn.hardware.machine.cache import BuildError
from sojourn.hardware.machine.ip import ip_version
from sojourn.hardware.machine.process import Process

if TYPE_CHECKING:
    from sojourn.apps.standins.broadcast.server import Broadcast

SCRIPTS = HERE / "players"
_BROADCAST = HERE / "broadcast" / "server.py"
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

    def __init__(self, *, player: str | None = None, target_latency: float | None = None, **of_page: Any) -> None:
        """`player`: one of BY_NAME; None: the service's own. For `of_page` see PageService.

        `target_latency`: s that the player aims to be behind a broadcast in chunks; None: a broadcast in segments.

        Raises ServiceError for options that do not fit.
        """
        super().__init__(**of_page)
        self.chosen, self.target_latency = player, target_latency
        self._broadcast: Broadcast | None = None
        least = _LEAST_BEHIND * SEGMENT_SECONDS
        if target_latency is not None:
            self.buffer = target_latency
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
        low_latency = {}
        if self.target_latency is not None:
            self._broadcast = write_low_latency(folder, clip, offered, self.target_latency)
            low_latency = {"target": f"{self.target_latency:g}", "start": f"{self._broadcast.start:.3f}"}
        elif self.live_film:
            write_broadcast(folder, clip, offered, self.buffer)
        else:
            write_film(folder, clip, offered)
        dash = "live/live.mpd" if self.live_film else "media/manifest.mpd"
        rungs = zip(clip.ladder, clip.rates, strict=True)
        query = {
            "player": player.script,
            "library": player.library,
            "rule": player.rule,
            "manifest": "live/master.m3u8" if player.form == "hls" else dash,
            "buffer": f"{self.buffer:g}",
            "rungs": ",".join(f"{rung.height}:{rate}" for rung, rate in rungs),
            "offered": ",".join(map(str, offered)),
            **low_latency,
        }
        return Site(ensure_players(), clip.folder, folder, film=True), f"/watch?{urlencode(query)}"

    def _serve(self, stage: Stage) -> tuple[str, dict[str, Any]]:
        if self.target_latency is None:
            return super()._serve(stage)
        if not self._ready:
            self.prepare()
        assert self._clip
        if self.congestion_control:
            set_congestion_control(stage.server, self.congestion_control, version=ip_version(stage.address))
            set_ecn_of(self.congestion_control, stage.server, stage.client)
        site, path = self.site(stage, self._clip)
        assert self._broadcast
        self._origin = _start_broadcast(stage, site, self._broadcast)
        return self._origin.url + path, {"hosts": {HOST: stage.address}, "spki": self._origin.certificate.spki}

    @property
    def facts(self) -> dict[str, Any]:
        begun = {"broadcast": {"start": self._broadcast.start}} if self._broadcast else {}
        return super().facts | begun

    @property
    def versions(self) -> dict[str, str]:
        versions = super().versions
        if self.target_latency is not None and versions.pop("caddy", ""):
            versions["origin"] = f"aiohttp {version('aiohttp')}"
        return versions

    @property
    def player(self) -> str:
        return BY_NAME[self.chosen].version if self.chosen else self.own_player

    @property
    @abstractmethod
    def own_player(self) -> str:
        """Name and version of the service's own player."""


def _start_broadcast(stage: Stage, site: Site, broadcast: Broadcast) -> Origin:
    """Serve `site` and the chunks of `broadcast`; writes broadcast.log and the access log origin.jsonl to the run.

    Raises ProcessError if the origin does not start.
    """
    certificate = ensure_certificate()
    live = str(site.live)
    command = [sys.executable, "-P", str(_BROADCAST), stage.address, str(stage.port)]
    command += [str(certificate.chain), str(certificate.key), json.dumps(asdict(broadcast)), live]
    command += [str(stage.run / "origin.jsonl"), str(site.page), str(ensure_player())]
    process = Process.start(stage.server, command, stderr=stage.run / "broadcast.log", ready="Running on")
    return Origin(process, stage.port, certificate)


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
