# SPDX-License-Identifier: Apache-2.0
"""How what is secret goes to a site and to no other: by the browser itself, out of reach of the page's own scripts."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict

#: Sends a command of the DevTools protocol to the page's target and returns what it gives.
Command = Callable[[str, dict[str, Any]], Mapping[str, Any]]

#: Runs in a world of its own: none of the page's scripts has touched what it calls. Between asking where the page is
#: and filling nothing else runs in it.
_FILL = """(selector, text, origins) => {
  const away = (address) => !origins.includes(new URL(address, location.href).origin);
  if (away(location.href)) return location.origin;
  const field = [...document.querySelectorAll(selector)].find((element) => element.getClientRects().length);
  if (!field) return null;
  const action = field.form?.getAttribute('action');
  if (action && away(action)) return new URL(action, location.href).origin;
  field.focus();
  field.value = text;
  field.dispatchEvent(new Event('input', { bubbles: true }));
  field.dispatchEvent(new Event('change', { bubbles: true }));
  return '';
}"""


#: Runs in such a world in each document before the page's scripts do; what the page itself has kept since stays.
_KEEP = """(() => {
  const items = (%s)[location.origin] || [];
  for (const { name, value } of items) if (localStorage.getItem(name) === null) localStorage.setItem(name, value);
})()"""


class Cookie(BaseModel):
    """One of a browser's; without `expires` (Unix s, -1) it ends with the browser."""

    model_config = ConfigDict(frozen=True)
    name: str
    value: str
    domain: str
    path: str = "/"
    expires: float = -1
    httpOnly: bool = False
    sameSite: Literal["Strict", "Lax", "None"] | None = None


class Item(BaseModel):
    """A value that a page keeps in its browser."""

    model_config = ConfigDict(frozen=True)
    name: str
    value: str


class Kept(BaseModel):
    """What the pages of one origin keep in a browser."""

    model_config = ConfigDict(frozen=True)
    origin: str
    localStorage: tuple[Item, ...] = ()


class StorageState(BaseModel):
    """What a browser kept of the sites where it was logged in, as Playwright's storage_state() writes it."""

    model_config = ConfigDict(frozen=True)
    cookies: tuple[Cookie, ...] = ()
    origins: tuple[Kept, ...] = ()

    @property
    def values(self) -> list[str]:
        """All values of it."""
        kept = (item.value for site in self.origins for item in site.localStorage)
        return [*(cookie.value for cookie in self.cookies), *kept]


NOTHING = StorageState()
"""The state of a browser that was nowhere."""


class AccountError(RuntimeError):
    """The page is, or sends what it is given, where the account does not belong; the text names the origin."""


def origin(url: str) -> str:
    """Return scheme, host and port of `url` as a browser writes them (RFC 6454): no port where it is the usual one."""
    parts = urlsplit(url)
    usual = {"http": 80, "https": 443}.get(parts.scheme)
    port = f":{parts.port}" if parts.port not in (None, usual) else ""
    host = parts.hostname or ""
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}{port}"


def in_own_world(command: Command, function: str, *given: Any) -> Any:
    """What a JavaScript function gives in the page's main document, out of reach of its scripts; None if it throws."""
    frame = command("Page.getFrameTree", {})["frameTree"]["frame"]["id"]
    world = command("Page.createIsolatedWorld", {"frameId": frame, "worldName": "account"})
    answered = command(
        "Runtime.callFunctionOn",
        {
            "functionDeclaration": function,
            "executionContextId": world["executionContextId"],
            "arguments": [{"value": value} for value in given],
            "returnByValue": True,
        },
    )
    return None if "exceptionDetails" in answered else answered["result"].get("value")


def fill_secret(command: Command, selector: str, text: str, origins: Collection[str]) -> bool:
    """Put `text` into the first visible match in the page's main document, where that is one of `origins`.

    Returns False without a match. Raises AccountError where the page, or what its form is sent to, is of another origin
    or of one that is not https.
    """
    if plain := [name for name in origins if not name.startswith("https://")]:
        raise AccountError(f"{plain[0]} is plain http: an account is sent over https only")
    answer = in_own_world(command, _FILL, selector, text, list(origins))
    if answer is None:
        return False
    if answer:
        raise AccountError(f"the login form leads to {answer}, the account belongs to {', '.join(origins)}")
    return True


def set_cookies(command: Command, url: str, cookie: str) -> None:
    """Give the cookies `name=value; name=value` to the host of `url` alone, for https only.

    Raises AccountError for plain http and for a cookie that the browser refuses.
    """
    if not url.startswith("https://"):
        raise AccountError(f"{url}: a session cookie is sent over https only")
    for name, equals, value in (pair.strip().partition("=") for pair in cookie.split(";") if pair.strip()):
        # Without a domain it is the host's alone, and not that of hosts below it.
        about = {"name": name, "value": value, "url": url, "path": "/", "secure": True}
        if not equals or not command("Network.setCookie", about).get("success"):
            raise AccountError("the browser refuses the session cookie; give it as name=value; name=value")


def keep_state(command: Command, state: StorageState, origins: Collection[str]) -> None:
    """Give the browser what of a `state` belongs to `origins`, before it opens any page; the rest it does not get.

    Cookies are sent over https only. Raises AccountError for an origin of plain http, where nothing belongs to any of
    them, and for a cookie that the browser refuses.
    """
    if plain := [name for name in origins if not name.startswith("https://")]:
        raise AccountError(f"{plain[0]} is plain http: a login is sent over https only")
    hosts = [urlsplit(name).hostname or "" for name in origins]
    cookies = [cookie for cookie in state.cookies if any(_belongs(cookie.domain, host) for host in hosts)]
    kept = {site.origin: site.model_dump()["localStorage"] for site in state.origins if site.origin in origins}
    if not cookies and not any(kept.values()):
        raise AccountError(f"the storage state has nothing for {', '.join(origins)}")
    for cookie in cookies:
        about = cookie.model_dump(exclude_none=True, exclude={"expires", "domain"})
        about |= {"expires": cookie.expires} if cookie.expires > 0 else {}
        if cookie.domain.startswith("."):  # else it is the host's alone
            about["domain"] = cookie.domain
        url = f"https://{cookie.domain.removeprefix('.')}/"
        if not command("Network.setCookie", about | {"url": url, "secure": True}).get("success"):
            raise AccountError(f"the browser refuses the cookie {cookie.name} of {cookie.domain}")
    if kept:
        command("Page.enable", {})  # without it no such script runs
        script = {"source": _KEEP % json.dumps(kept), "worldName": "account", "runImmediately": True}
        command("Page.addScriptToEvaluateOnNewDocument", script)


def _belongs(domain: str, host: str) -> bool:
    """Whether a host is sent the cookies of a domain (RFC 6265, 5.1.3)."""
    return host == domain.removeprefix(".") or (domain.startswith(".") and host.endswith(domain))
