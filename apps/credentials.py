# SPDX-License-Identifier: Apache-2.0
"""A viewer's account, from the environment or a file that nobody else may read; never written, never logged."""

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

#: Secrets up to so many characters are parts of other words.
_SHORT = 3
_KEYS = ("user", "password", "cookie", "storage-state", "origins")
LOGIN: tuple[tuple[str, ...], ...] = (("user", "password"), ("cookie",), ("storage-state",))
"""What is enough to be logged in where a page's own form is understood."""
#: What a site keeps in a browser is secret where it could be a token or a name: "dark" and "true" are not.
_TOKEN = re.compile(r"[\w.@~+/=%-]{12,}")
_MOST_TOKENS = 1000
#: Bytes of a storage state.
_LARGEST = 8 << 20


@dataclass(frozen=True)
class Credentials:
    """What lets a viewer in: user and password, cookies ("name=value; name=value"), or all that a browser kept."""

    source: str  # where they come from, for messages
    user: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    cookie: str = field(default="", repr=False)
    state: StorageState = field(default=NOTHING, repr=False)
    #: Where else than at the page's own site the account is typed in: "https://login.example https://id.example".
    origins: str = ""

    @property
    def secrets(self) -> list[str]:
        """All that nobody may see of it, also as it stands in an address; the longest first."""
        pairs = [pair.partition("=")[2].strip() for pair in self.cookie.split(";")]
        tokens = sorted({token for value in self.state.values for token in _TOKEN.findall(value)}, key=len)
        plain = {self.user, self.password, self.cookie, *pairs, *tokens[-_MOST_TOKENS:]}
        return sorted((s for s in {*plain, *map(quote, plain)} if len(s) > _SHORT), key=len, reverse=True)

    def sites(self, url: str) -> list[str]:
        """The origins to which it may be given where `url` is watched."""
        return [origin(url), *self.origins.split()]

    def hidden(self, text: str) -> str:
        """Return `text`, such as what a page answered, without anything of the account."""
        for secret in self.secrets:
            text = text.replace(secret, "…")
        return text


def read_credentials(service: str, file: Path | None, enough: Sequence[Sequence[str]] = LOGIN) -> Credentials | None:
    """Return the account of `service`, None where there is none.

    From the TOML `file` with the keys user, password, cookie, storage-state (a file, from where this one lies) and
    origins; else from the environment: SOJOURN_<SERVICE>_USER, _PASSWORD, _COOKIE, _STORAGE_STATE, _ORIGINS. Raises
    ServiceError, without any secret, for a file that others may read or that is no such file, and for what is none of
    the sets of keys that are `enough`.
    """
    if file is not None:
        source, given = f"--credentials={file}", _toml(file)
    else:
        source, given = f"{_prefix(service)}*", {k: os.environ.get(name, "") for k, name in _variables(service).items()}
        if not any(given.values()):
            return None
    if unknown := given.keys() - set(_KEYS):
        raise ServiceError(f"{source}: unknown {', '.join(sorted(unknown))}; known: {', '.join(_KEYS)}")
    if any(not isinstance(value, str) for value in given.values()):
        raise ServiceError(f"{source}: each value must be a text in quotes")
    if wrong := [name for name in given.get("origins", "").split() if not re.fullmatch(r"https://[^/\s]+", name)]:
        raise ServiceError(f"{source}: origins: {wrong[0]!r}: must be https://host or https://host:port")
    if not any(all(given.get(key) for key in keys) for keys in enough):
        raise ServiceError(f"{source}: give {', or '.join(' and '.join(keys) for keys in enough)}")
    named_state = given.pop("storage-state", "")
    return Credentials(source, **given, state=_state(source, file, named_state) if named_state else NOTHING)


def account_variables(service: str) -> list[str]:
    """Return the names of the environment's variables that give an account of `service`."""
    return [name for name in _variables(service).values() if os.environ.get(name)]


def let_in(browser: Driver, credentials: Credentials | None, url: str) -> None:
    """Give a browser that has opened nothing yet the cookies and the state of an account, where there are any.

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
        raise ServiceError(f"{credentials.source}: {error}") from error


def _prefix(service: str) -> str:
    return f"SOJOURN_{service.upper()}_"


def _variables(service: str) -> dict[str, str]:
    return {key: _prefix(service) + key.upper().replace("-", "_") for key in _KEYS}


def _state(source: str, beside: Path | None, name: str) -> StorageState:
    file = (beside.parent if beside else Path()) / expanded(name)
    try:
        return StorageState.model_validate_json(_private(file, f"{source}: storage-state"))
    except ValidationError:  # its text would show what stands in the file
        raise ServiceError(
            f"{source}: storage-state: {file}: is no storage state; make one by Playwright's storage_state()"
        ) from None


def _toml(file: Path) -> dict[str, Any]:
    try:
        return parse_toml(_private(file, "--credentials"))
    except TomlError:  # its text would show what stands in the file
        raise ServiceError(f'--credentials={file}: is no TOML; write user = "…" and password = "…"') from None


def _private(file: Path, what: str) -> bytes:
    """The bytes of a file that nobody else may read. Raises ServiceError."""
    try:
        with file.open("rb") as opened:
            mode = stat.S_IMODE(os.fstat(opened.fileno()).st_mode)
            if mode & 0o077:
                raise ServiceError(f"{what}={file}: mode {mode:04o} lets others at it; chmod 600 {file}")
            content = opened.read(_LARGEST + 1)
    except OSError as error:
        raise ServiceError(f"{what}={file}: {error.strerror}") from error
    if len(content) > _LARGEST:
        raise ServiceError(f"{what}={file}: is larger than the {_LARGEST} bytes that one may have")
    return content
