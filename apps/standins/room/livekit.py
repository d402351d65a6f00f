# SPDX-License-Identifier: Apache-2.0
"""LiveKit: a room's server (https://github.com/livekit/livekit), compiled from its Go module, and its client (npm)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

from sojourn.apps.standins import origin
from sojourn.hardware.build_tool import ended
from sojourn.hardware.machine import cache
from sojourn.hardware.machine.cache import BuildError
from sojourn.hardware.machine.ip import as_host
from sojourn.hardware.machine.place import ENVIRONMENT
from sojourn.traffic import ports

HERE = Path(__file__).parent
CLIENT = "livekit-client.umd.js"
"""The script of the browser client, in the folder of `ensure_client`."""
SIGNALLING = 7880
"""TCP on the server's loopback: LiveKit's HTTP and WebSockets."""
ROOM = "sojourn"
_MODULE = "github.com/livekit/livekit-server"
_VERSION = "version"
_MODULE_FILES = ("sfu/go.mod", "sfu/go.sum")
_LEAST = (1, 24)
_PATH = os.pathsep.join([ENVIRONMENT["PATH"], "/usr/local/go/bin"])
_INSTALL = f"Go {'.'.join(map(str, _LEAST))} or newer: apt-get install golang-go, or from https://go.dev/dl"
# Not secrets: whoever reaches the server is in the lab.
_KEY, _SECRET = "sojourn", "the same on every machine, so that packets repeat"
_VALID_S = 7 * 86_400


def missing_tools() -> str:
    """Return what is missing on this machine to compile the server, empty if nothing."""
    go = shutil.which("go", path=_PATH)
    if go is None:
        return f"go ({_INSTALL})"
    said = _go_version(go)
    version = re.search(r"go(\d+)\.(\d+)", said)
    if version and (int(version[1]), int(version[2])) >= _LEAST:
        return ""
    return f"a newer go than {said or 'this one, which prints no version'} ({_INSTALL})"


def ensure_server() -> Path:
    """Return the server, one static program, compiled now if it is not in the cache; its licence is next to it.

    Raises BuildError, also without Go.
    """
    if missing := missing_tools():
        raise BuildError(f"not installed: {missing}", code="missing-program")
    go = shutil.which("go", path=_PATH) or "go"
    contents = [(name, (HERE / name).read_bytes()) for name in _MODULE_FILES]
    contents.append(("compiler", _go_version(go).encode()))

    def build(scratch: Path) -> None:
        for name in _MODULE_FILES:
            shutil.copy(HERE / name, scratch)
        # Go's own flags apply to a user's projects, and another Go than the one in the digest must not be downloaded.
        environment = {**ENVIRONMENT, "CGO_ENABLED": "0", "GOFLAGS": "", "GOTOOLCHAIN": "local", "GOWORK": "off"}
        environment["GOCACHE"] = str(scratch / "objects")
        command = ["build", "-mod=readonly", "-trimpath", "-buildvcs=false", "-ldflags=-s -w"]
        _run([go, *command, "-o", "livekit-server", f"{_MODULE}/cmd/server"], scratch, environment)
        source = Path(
            _run([go, "list", "-mod=readonly", "-m", "-f", "{{.Dir}}", _MODULE], scratch, environment).strip()
        )
        for name in ("LICENSE", "NOTICE"):
            shutil.copy(source / name, scratch)
        (scratch / _VERSION).write_text(f"LiveKit {pinned_version()}, {_go_version(go)}")
        cache.remove_tree(scratch / "objects")

    return cache.build_once(cache.root() / "livekit" / cache.digest(contents), build) / "livekit-server"


def pinned_version() -> str:
    """Return the server's version as go.mod pins it."""
    pinned = re.search(rf"{re.escape(_MODULE)} v(\S+)", (HERE / "sfu/go.mod").read_text())
    assert pinned
    return pinned[1]


def version(server: Path) -> str:
    """Return the version of what `ensure_server` returned, and that of its compiler."""
    return server.with_name(_VERSION).read_text()


def _go_version(go: str) -> str:
    command = [go, "env", "GOVERSION"]
    environment = {**ENVIRONMENT, "GOTOOLCHAIN": "local"}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment).stdout.strip()


def _run(command: list[str], folder: Path, environment: dict[str, str]) -> str:
    done = ended(["nice", *command], cwd=folder, env=environment)
    if done.returncode:
        raise BuildError(f"LiveKit: go {command[1]} failed: {done.stderr.strip()[-300:]}")
    return done.stdout


def ensure_client() -> Path:
    """Return the folder with CLIENT as package-lock.json pins it, and its licence, installed by npm on first use.

    Raises OriginError if npm fails.
    """
    lock = (HERE / "package-lock.json").read_bytes()

    def install(folder: Path) -> None:
        for file in ("package.json", "package-lock.json"):
            shutil.copy(HERE / file, folder)
        origin.npm_ci(folder)
        library = folder / "node_modules/livekit-client"
        shutil.copy(library / "dist" / CLIENT, folder)
        shutil.copy(library / "LICENSE", folder / "livekit-client.LICENSE")
        shutil.rmtree(folder / "node_modules")
        cache.normalise_mtimes(folder)

    return cache.build_once(cache.root() / "livekit-client" / hashlib.sha256(lock).hexdigest()[:16], install)


def client_version() -> str:
    """Return the pinned version of the browser client."""
    lock = json.loads((HERE / "package-lock.json").read_text())
    return str(lock["packages"]["node_modules/livekit-client"]["version"])


def settings(address: str) -> str:
    """Return the server's configuration: all media by one UDP port of `address`; the rest is LiveKit's default."""
    known = {
        "port": SIGNALLING,
        "bind_addresses": ["127.0.0.1"],
        "keys": {_KEY: _SECRET},
        # A connection that changes to TCP would not be found in the captures.
        "rtc": {
            "node_ip": address, "use_external_ip": False, "udp_port": ports.ROOM, "tcp_port": 0,
            "allow_tcp_fallback": False,
        },
        "logging": {"level": "info", "json": True},
    }  # fmt: skip
    return json.dumps(known, indent=1) + "\n"  # JSON is YAML


def token(identity: str, now: float) -> str:
    """Return the access token of one party at `now` (Unix s): a JSON Web Token by HMAC-SHA-256 (RFC 7519, RFC 7515)."""
    grants = {"room": ROOM, "roomJoin": True, "canPublish": True, "canSubscribe": True}
    claims = {"iss": _KEY, "sub": identity, "nbf": int(now) - 60, "exp": int(now) + _VALID_S, "video": grants}
    signed = f"{_base64url({'alg': 'HS256', 'typ': 'JWT'})}.{_base64url(claims)}"
    return f"{signed}.{_encoded(hmac.digest(_SECRET.encode(), signed.encode(), 'sha256'))}"


def _base64url(part: dict[str, Any]) -> str:
    return _encoded(json.dumps(part, separators=(",", ":")).encode())


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def caddyfile(address: str, port: int, chain: Path, key: Path) -> str:
    """Return the configuration of Caddy, which ends the pages' TLS and passes their WebSockets on to LiveKit."""
    return f"""{{
	admin off
	auto_https off
}}
https://room.test:{port} {{
	bind {as_host(address)}
	tls "{chain}" "{key}"
	header Cache-Control no-store
	handle /rtc* {{
		reverse_proxy 127.0.0.1:{SIGNALLING}
	}}
	handle /{CLIENT} {{
		root * "{ensure_client()}"
		file_server
	}}
	handle {{
		root * "{HERE}"
		file_server
	}}
}}
"""
