# SPDX-License-Identifier: Apache-2.0
"""Pass secrets to one site only: through the browser itself, out of reach of the page's own scripts."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict

from sojourn.hardware.machine.errors import CodedError

#: Sends a command of the DevTools protocol to the page's target and returns its result.
Command = Callable[[str, dict[str, Any]], Mapping[str, Any]]

#: Runs in an isolated world: the page's scripts cannot have changed the functions that it calls. Nothing else runs
#: between the check of the page's origin and the filling.
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


#: Runs in an isolated world in every document before the page's scripts; values that the page stored since are kept.
_KEEP = """(() => {
  const items = (%s)[location.origin] || [];
  for (const { name, value } of items) if (localStorage.getItem(name) === null) localStorage.setItem(name, value);
})()"""


class Cookie(BaseModel):
    """A browser's cookie; `expires` in Unix s, -1: a session cookie."""

    model_config = ConfigDict(frozen=True)
    name: str
    value: str
    domain: str
    path: str = "/"
    expires: float = -1
    httpOnly: bool = False
    sameSite: Literal["Strict", "Lax", "None"] | None = None


class Item(BaseModel):
    """A local-storage item of a page."""

    model_config = ConfigDict(frozen=True)
    name: str
    value: str


class Kept(BaseModel):
    """The local storage of one origin."""

    model_config = ConfigDict(frozen=True)
    origin: str
    localStorage: tuple[Item, ...] = ()


class StorageState(BaseModel):
    """A browser's stored logins, as Playwright's storage_state() writes them."""

    model_config = ConfigDict(frozen=True)
    cookies: tuple[Cookie, ...] = ()
    origins: tuple[Kept, ...] = ()

    @property
    def values(self) -> list[str]:
        """All its values."""
        kept = (item.value for site in self.origins for item in site.localStorage)
        return [*(cookie.value for cookie in self.cookies), *kept]


NOTHING = StorageState()
"""The state of a browser that has visited no site."""


class AccountError(CodedError):
    """The page, or the target of its form, does not belong to the account; the message names the origin."""


def origin(url: str) -> str:
    """Return scheme, host and port of `url` as a browser writes them (RFC 6454): without the default port."""
    parts = urlsplit(url)
    usual = {"http": 80, "https": 443}.get(parts.scheme)
    port = f":{parts.port}" if parts.port not in (None, usual) else ""
    host = parts.hostname or ""
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}{port}"


def in_isolated_world(command: Command, function: str, *given: Any) -> Any:
    """Run a function in the page's main document, out of reach of its scripts; return its result, None if it throws."""
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
    """Fill `text` into the first visible match in the page's main document if its origin is one of `origins`.

    Returns False without a match. Raises AccountError if the page, or its form's target, has another origin or does not
    use https.
    """
    if plain := [name for name in origins if not name.startswith("https://")]:
        raise AccountError(f"{plain[0]} uses plain http; an account is sent only over https", code="insecure")
    answer = in_isolated_world(command, _FILL, selector, text, list(origins))
    if answer is None:
        return False
    if answer:
        raise AccountError(
            f"the login form submits to {answer}, but the account belongs to {', '.join(origins)}", code="other-site"
        )
    return True


def set_cookies(command: Command, url: str, cookie: str) -> None:
    """Set the cookies `name=value; name=value` for the host of `url` alone, over https only.

    Raises AccountError for plain http and for a cookie that the browser refuses.
    """
    if not url.startswith("https://"):
        raise AccountError(f"{url} uses plain http; a session cookie is sent only over https", code="insecure")
    for name, equals, value in (pair.strip().partition("=") for pair in cookie.split(";") if pair.strip()):
        # Without a domain, the cookie is not sent to subdomains.
        about = {"name": name, "value": value, "url": url, "path": "/", "secure": True}
        if not equals or not command("Network.setCookie", about).get("success"):
            raise AccountError(
                "the browser rejects the session cookie; give it as name=value; name=value", code="invalid-value"
            )


def keep_state(command: Command, state: StorageState, origins: Collection[str]) -> None:
    """Load the part of `state` that belongs to `origins` into a browser that has not opened a page yet.

    Cookies are sent only over https. Raises AccountError for an origin with plain http, if nothing in `state` belongs
    to `origins`, and for a cookie that the browser rejects.
    """
    if plain := [name for name in origins if not name.startswith("https://")]:
        raise AccountError(f"{plain[0]} uses plain http; a login is sent only over https", code="insecure")
    hosts = [urlsplit(name).hostname or "" for name in origins]
    cookies = [cookie for cookie in state.cookies if any(_belongs(cookie.domain, host) for host in hosts)]
    kept = {site.origin: site.model_dump()["localStorage"] for site in state.origins if site.origin in origins}
    if not cookies and not any(kept.values()):
        raise AccountError(f"the storage state holds nothing for {', '.join(origins)}", code="missing")
    for cookie in cookies:
        about = cookie.model_dump(exclude_none=True, exclude={"expires", "domain"})
        about |= {"expires": cookie.expires} if cookie.expires > 0 else {}
        if cookie.domain.startswith("."):  # otherwise it applies to the host alone
            about["domain"] = cookie.domain
        url = f"https://{cookie.domain.removeprefix('.')}/"
        if not command("Network.setCookie", about | {"url": url, "secure": True}).get("success"):
            raise AccountError(f"the browser rejects the cookie {cookie.name} of {cookie.domain}", code="invalid-value")
    if kept:
        command("Page.enable", {})  # otherwise the script does not run
        script = {"source": _KEEP % json.dumps(kept), "worldName": "account", "runImmediately": True}
        command("Page.addScriptToEvaluateOnNewDocument", script)


def _belongs(domain: str, host: str) -> bool:
    """Whether a domain's cookies are sent to a host (RFC 6265, 5.1.3)."""
    return host == domain.removeprefix(".") or (domain.startswith(".") and host.endswith(domain))
