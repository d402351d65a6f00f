# SPDX-License-Identifier: Apache-2.0
"""The pages of real sites, one data file per site: what to fix when a site changes.

CSS selectors, and patterns (JavaScript regular expressions, case-insensitive) for the English text of a page.
"""

from __future__ import annotations

import functools
import tomllib
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from sojourn.apps.base import ServiceError
from sojourn.apps.browsers.account import Cookie
from sojourn.hardware.machine.messages import first_wrong

HERE = Path(__file__).parent


class _Site(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
    refused: dict[str, str] = {}
    """Patterns of a page's texts when it refuses access, and what to do then."""


class WatchPage(_Site):
    """YouTube's."""

    consent_shown: str
    consent: tuple[str, ...]
    """Buttons, in the order in which they are tried."""
    skip: str
    """Ends an advertisement."""
    fullscreen: str
    error: str
    """The element in which the player says why it does not play."""
    cookies: tuple[Cookie, ...] = ()
    """Cookies that are set before the first visit."""


class TelevisionPage(_Site):
    """A channel's page, and the login page before it."""

    user: str
    password: str
    submit: str
    """Fields and button of a form with a password."""
    user_first: str
    """The field of a form that takes only the user."""
    submit_first: str
    said: str
    """The element in which a form says why it refuses."""
    expired: str
    """Pattern of a page's text when the session has expired."""
    protected: str
    """Pattern of a page's text when the browser has no key for the video."""


class MeetingPage(_Site):
    """A meeting's page, and the pages before it."""

    leave: str
    """An element that is present in the meeting, and in some lobbies."""
    press: tuple[str, ...] = ()
    """Elements to press on the way in; the first that is present."""
    words: tuple[str, ...] = ()
    """Patterns for the beginning of the names of further buttons to press."""
    guest: str = ""
    """The field for a guest's name."""
    secret: str = ""
    """The field for the meeting's password."""
    submit: str = ""
    """The button that sends the password."""
    lobby: tuple[str, ...] = ()
    """Patterns of a page's texts while a host must admit guests."""
    inside: str = ""
    """JavaScript that is true once the guest is in the meeting, if the page's scripts show it."""
    waits: str = ""
    """The same for a lobby."""


Site = TypeVar("Site", bound=_Site)


def read_site(name: str, kind: type[Site]) -> Site:
    """Parse NAME.toml of this folder. Raises ServiceError that names its first error."""
    site = _read(name, kind)
    assert isinstance(site, kind)
    return site


@functools.cache
def _read(name: str, kind: type[_Site]) -> _Site:
    file = HERE / f"{name}.toml"
    try:
        return kind.model_validate(tomllib.loads(file.read_text()))
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise ServiceError(f"{file}: {error}", code="unreadable-file") from error
    except ValidationError as error:
        raise ServiceError(f"{file}: {first_wrong(error)}", code="invalid-value") from error
