# SPDX-License-Identifier: Apache-2.0
"""Players that can be chosen for a stand-in's film: each is a script of apps/standins/players and a package of npm."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlencode

from sojourn.apps.players.manifests import write_broadcast, write_film, write_low_latency
from sojourn.apps.standins.clip import Clip
from sojourn.apps.standins.origin import HERE, PLAYERS, OriginError, Site, npm_ci, player_version
from sojourn.hardware.build_tool import ended
from sojourn.hardware.machine import cache
from sojourn.hardware.machine.cache import BuildError

if TYPE_CHECKING:
    from sojourn.apps.standins.broadcast.server import Broadcast

SCRIPTS = HERE / "players"
#: npm package: its browser script and its licence. dash.js and hls.js are those of the services' own pages.
_PACKAGES = {
    "rx-player": ("dist/rx-player.min.js", "LICENSE"),
    "shaka-player": ("dist/shaka-player.compiled.js", "LICENSE"),
    "video.js": ("dist/video.min.js", "LICENSE"),
}
#: What names the modules of RxPlayer's package that esbuild makes one script of.
_MODULES = "rx-player-bundle.js"


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


@dataclass(frozen=True)
class PlayedFilm:
    """What a chosen player plays: what the origin serves, the path of the page, and the broadcast, if it comes in
    chunks."""

    site: Site
    path: str
    broadcast: Broadcast | None


def played_film(
    name: str, run: Path, clip: Clip, offered: Sequence[int], *, live: bool, buffer: float, target_latency: float | None
) -> PlayedFilm:
    """Write the manifests of a film, or if `live` of a broadcast that begins now, to `run`/live, for the player `name`.

    `offered` are indices into the clip's ladder, `buffer` the seconds of video that the player keeps, `target_latency`
    those that it aims to be behind a broadcast in chunks; None: in segments.
    """
    player, folder = BY_NAME[name], run / "live"
    broadcast, low_latency = None, {}
    if target_latency is not None:
        broadcast = write_low_latency(folder, clip, offered, target_latency)
        low_latency = {"target": f"{target_latency:g}", "start": f"{broadcast.start:.3f}"}
    elif live:
        write_broadcast(folder, clip, offered, buffer)
    else:
        write_film(folder, clip, offered)
    dash = "live/live.mpd" if live else "media/manifest.mpd"
    query = {
        "player": player.script,
        "library": player.library,
        "rule": player.rule,
        "manifest": "live/master.m3u8" if player.form == "hls" else dash,
        "buffer": f"{buffer:g}",
        "rungs": ",".join(f"{rung.height}:{rate}" for rung, rate in zip(clip.ladder, clip.rates, strict=True)),
        "offered": ",".join(map(str, offered)),
        **low_latency,
    }
    return PlayedFilm(Site(ensure_players(), clip.folder, folder, film=True), f"/watch?{urlencode(query)}", broadcast)


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
    npm_ci(folder)
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
        said = done.stderr.strip().partition("\n")[0] or f"exit code {done.returncode}"
        raise OriginError(f"esbuild could not bundle RxPlayer: {said}")


def _pinned(package: str) -> str:
    lock = json.loads((SCRIPTS / "package-lock.json").read_text())
    return str(lock["packages"][f"node_modules/{package}"]["version"])


def pinned_players() -> dict[str, str]:
    """Return the versions of the packages of `SCRIPTS` by name."""
    return {package: _pinned(package) for package in _PACKAGES}
