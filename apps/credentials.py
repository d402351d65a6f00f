# SPDX-License-Identifier: Apache-2.0
"""A viewer's account, from the environment or a file that nobody else may read; never written, never logged."""

from __future__ import annotations

import os
import re
import stat
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

from apps.base import ServiceError

#: Secrets up to so many characters are parts of other words.
_SHORT = 3
_KEYS = ("user", "password", "cookie", "origins")


@dataclass(frozen=True)
class Credentials:
    """Either user and password, or the session cookie of a browser that is logged in ("name=value; name=value")."""

    source: str  # where they come from, for messages
    user: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    cookie: str = field(default="", repr=False)
    #: Where else than at the page's own site the account is typed in: "https://login.example https://id.example".
    origins: str = ""

    def hidden(self, text: str) -> str:
        """Return `text`, such as what a page answered, without anything of the account."""
        pairs = [pair.partition("=")[2].strip() for pair in self.cookie.split(";")]
        for secret in sorted((self.user, self.password, self.cookie, *pairs), key=len, reverse=True):
            text = text.replace(secret, "…") if len(secret) > _SHORT else text
        return text


def read_credentials(service: str, file: Path | None) -> Credentials | None:
    """Return the account of `service`, None where there is none.

    From the TOML `file` with the keys user and password, or cookie, and origins; else from the environment:
    SOJOURN_<SERVICE>_USER, _PASSWORD, _COOKIE, _ORIGINS. Raises ServiceError, without any secret, for a file that
    others may read or that is no such file, and for half an account.
    """
    if file is not None:
        source, given = f"--credentials={file}", _read(file)
    else:
        prefix = f"SOJOURN_{service.upper()}_"
        source, given = f"{prefix}*", {key: os.environ.get(prefix + key.upper(), "") for key in _KEYS}
        if not any(given.values()):
            return None
    if unknown := given.keys() - set(_KEYS):
        raise ServiceError(f"{source}: unknown {', '.join(sorted(unknown))}; known: {', '.join(_KEYS)}")
    if any(not isinstance(value, str) for value in given.values()):
        raise ServiceError(f"{source}: each value must be a text in quotes")
    account = Credentials(source, **given)
    if wrong := [name for name in account.origins.split() if not re.fullmatch(r"https://[^/\s]+", name)]:
        raise ServiceError(f"{source}: origins: {wrong[0]!r}: must be https://host or https://host:port")
    if not account.cookie and not (account.user and account.password):
        raise ServiceError(f"{source}: give user and password, or cookie")
    return account


def _read(file: Path) -> dict[str, str]:
    try:
        with file.open("rb") as opened:
            mode = stat.S_IMODE(os.fstat(opened.fileno()).st_mode)
            if mode & 0o077:
                raise ServiceError(f"--credentials={file}: mode {mode:04o} lets others at it; chmod 600 {file}")
            return tomllib.load(opened)
    except OSError as error:
        raise ServiceError(f"--credentials={file}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):  # its text would show what stands in the file
        raise ServiceError(f'--credentials={file}: is no TOML; write user = "…" and password = "…"') from None
