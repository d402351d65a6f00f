# SPDX-License-Identifier: Apache-2.0
"""A viewer's account, from the environment or a file that only its owner can read; never written, never logged."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pydantic import ValidationError

from sojourn.apps.base import ServiceError
from sojourn.apps.browsers.account import NOTHING, AccountError, StorageState, origin
from sojourn.apps.browsers.browser import Driver
from sojourn.hardware.machine.files import expanded
from sojourn.hardware.machine.toml_file import TomlError, parse_toml

#: Secrets up to this length also occur inside ordinary words.
_SHORT = 3
_KEYS = ("user", "password", "cookie", "storage-state", "origins")
LOGIN: tuple[tuple[str, ...], ...] = (("user", "password"), ("cookie",), ("storage-state",))
"""The sets of keys that suffice to log in through a page's own form."""
#: A stored value is secret if it could be a token or a name: "dark" and "true" are not.
_TOKEN = re.compile(r"[\w.@~+/=%-]{12,}")
_MOST_TOKENS = 1000
#: Maximum size of a storage state, bytes.
_LARGEST = 8 << 20


@dataclass(frozen=True)
class Credentials:
    """An account: user and password, cookies ("name=value; name=value"), or a browser's storage state."""

    source: str  # their source, for messages
    user: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    cookie: str = field(default="", repr=False)
    state: StorageState = field(default=NOTHING, repr=False)
    #: Further sites where the account may be typed in: "https://login.example https://id.example".
    origins: str = ""

    @property
    def secrets(self) -> list[str]:
        """Every secret of the account, also as encoded in an address; longest first."""
        pairs = [pair.partition("=")[2].strip() for pair in self.cookie.split(";")]
        tokens = sorted({token for value in self.state.values for token in _TOKEN.findall(value)}, key=len)
        plain = {self.user, self.password, self.cookie, *pairs, *tokens[-_MOST_TOKENS:]}
        return sorted((s for s in {*plain, *map(quote, plain)} if len(s) > _SHORT), key=len, reverse=True)

    def sites(self, url: str) -> list[str]:
        """The origins that may receive it when `url` is watched."""
        return [origin(url), *self.origins.split()]

    def hidden(self, text: str) -> str:
        """Return `text`, such as a page's answer, without the account's secrets."""
        for secret in self.secrets:
            text = text.replace(secret, "…")
        return text


def read_credentials(service: str, file: Path | None, enough: Sequence[Sequence[str]] = LOGIN) -> Credentials | None:
    """Return the account of `service`, None if there is none.

    Its source is the TOML `file` with the keys user, password, cookie, storage-state (a path relative to this file) and
    origins; without `file`, the environment: SOJOURN_<SERVICE>_USER, _PASSWORD, _COOKIE, _STORAGE_STATE, _ORIGINS.
    Raises ServiceError, without any secret, for a file that others can read or that is not valid, and if the keys match
    none of the sets in `enough`.
    """
    if file is not None:
        source, given = f"--credentials={file}", _toml(file)
    else:
        source, given = f"{_prefix(service)}*", {k: os.environ.get(name, "") for k, name in _variables(service).items()}
        if not any(given.values()):
            return None
    if unknown := given.keys() - set(_KEYS):
        raise ServiceError(
            f"{source}: unknown {', '.join(sorted(unknown))}; known: {', '.join(_KEYS)}", code="unknown-option"
        )
    if any(not isinstance(value, str) for value in given.values()):
        raise ServiceError(f"{source}: every value must be a string in quotes", code="invalid-value")
    if wrong := [name for name in given.get("origins", "").split() if not re.fullmatch(r"https://[^/\s]+", name)]:
        raise ServiceError(
            f"{source}: origins: {wrong[0]!r} is not an origin; give https://host or https://host:port",
            code="invalid-value",
        )
    if not any(all(given.get(key) for key in keys) for keys in enough):
        raise ServiceError(f"{source}: give {', or '.join(' and '.join(keys) for keys in enough)}", code="missing")
    named_state = given.pop("storage-state", "")
    return Credentials(source, **given, state=_state(source, file, named_state) if named_state else NOTHING)


def account_variables(service: str) -> list[str]:
    """Return the names of the environment variables that hold an account of `service`."""
    return [name for name in _variables(service).values() if os.environ.get(name)]


def let_in(browser: Driver, credentials: Credentials | None, url: str) -> None:
    """Load an account's cookies and storage state, if any, into a browser that has opened no page yet.

    Raises ServiceError, without any secret.
    """
    if credentials is None:
        return
    try:
        if credentials.cookie:
            browser.set_cookies(url, credentials.cookie)
        if credentials.state != NOTHING:
            browser.keep_state(credentials.state, credentials.sites(url))
    except AccountError as error:
        raise ServiceError(f"{credentials.source}: {error}", code=error.code) from error


def _prefix(service: str) -> str:
    return f"SOJOURN_{service.upper()}_"


def _variables(service: str) -> dict[str, str]:
    return {key: _prefix(service) + key.upper().replace("-", "_") for key in _KEYS}


def _state(source: str, base: Path | None, name: str) -> StorageState:
    file = (base.parent if base else Path()) / expanded(name)
    try:
        return StorageState.model_validate_json(_private(file, f"{source}: storage-state"))
    except ValidationError:  # its message would show the file's content
        raise ServiceError(
            f"{source}: storage-state: {file}: not a storage state; create one with Playwright's storage_state()",
            code="invalid-value",
        ) from None


def _toml(file: Path) -> dict[str, Any]:
    try:
        return parse_toml(_private(file, "--credentials"))
    except TomlError:  # its message would show the file's content
        raise ServiceError(
            f'--credentials={file}: not valid TOML; write user = "…" and password = "…"', code="unreadable-file"
        ) from None


def _private(file: Path, what: str) -> bytes:
    """Return the bytes of a file that only its owner can read. Raises ServiceError."""
    try:
        with file.open("rb") as opened:
            mode = stat.S_IMODE(os.fstat(opened.fileno()).st_mode)
            if mode & 0o077:
                raise ServiceError(
                    f"{what}={file}: others can read it (mode {mode:04o}); run chmod 600 {file}", code="not-private"
                )
            content = opened.read(_LARGEST + 1)
    except OSError as error:
        raise ServiceError(f"{what}={file}: {error.strerror}", code="unreadable-file") from error
    if len(content) > _LARGEST:
        raise ServiceError(f"{what}={file}: larger than the allowed {_LARGEST} bytes", code="too-large")
    return content
