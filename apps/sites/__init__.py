# SPDX-License-Identifier: Apache-2.0
"""What is known of the pages of real sites, a file of data each: what to mend when a site changes.

CSS selectors, and patterns (JavaScript's regular expressions, of any case) for the English text of a page.
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
    """Patterns of what a page says when it lets nobody in, and what to do then."""


class WatchPage(_Site):
    """YouTube's."""

    consent_shown: str
    consent: tuple[str, ...]
    """Buttons, tried in this order."""
    skip: str
    """Ends an advertisement."""
    fullscreen: str
    error: str
    """Where the player says why it does not play."""
    cookies: tuple[Cookie, ...] = ()
    """What the browser has before it comes."""


class TelevisionPage(_Site):
    """A channel's, and the login before it."""

    user: str
    password: str
    submit: str
    """The three of a form with a password."""
    user_first: str
    """The field of a form that asks for the user alone."""
    submit_first: str
    said: str
    """Where a form says why it refuses."""
    expired: str
    """A pattern of what a page says of a session that has ended."""
    protected: str
    """The same of a film that the browser has no key for."""


class MeetingPage(_Site):
    """A meeting's, and those before it."""

    leave: str
    """What is there while one is in the meeting, and in some lobbies."""
    press: tuple[str, ...] = ()
    """What is pressed on the way in, the first that is there."""
    words: tuple[str, ...] = ()
    """Patterns of how the names of further buttons begin that are pressed."""
    guest: str = ""
    """The field of a guest's name."""
    secret: str = ""
    """The field of the meeting's password."""
    submit: str = ""
    """Sends the password."""
    lobby: tuple[str, ...] = ()
    """Patterns of what a page says while a host must let guests in."""
    inside: str = ""
    """JavaScript that is true once one is in the meeting, where the page can be asked."""
    waits: str = ""
    """The same of a lobby."""


Site = TypeVar("Site", bound=_Site)


def read_site(name: str, kind: type[Site]) -> Site:
    """Return what NAME.toml here says. Raises ServiceError that names the first thing wrong in it."""
    site = _read(name, kind)
    assert isinstance(site, kind)
    return site


@functools.cache
def _read(name: str, kind: type[_Site]) -> _Site:
    file = HERE / f"{name}.toml"
    try:
        return kind.model_validate(tomllib.loads(file.read_text()))
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise ServiceError(f"{file}: {error}") from error
    except ValidationError as error:
        raise ServiceError(f"{file}: {first_wrong(error)}") from error
