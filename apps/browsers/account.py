# SPDX-License-Identifier: Apache-2.0
"""How what is secret goes to a site and to no other: by the browser itself, out of reach of the page's own scripts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any
from urllib.parse import urlsplit

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


class AccountError(RuntimeError):
    """The page is, or sends what it is given, where the account does not belong; the text names the origin."""


def origin(url: str) -> str:
    """Return scheme, host and port of `url` as a browser writes them (RFC 6454): no port where it is the usual one."""
    parts = urlsplit(url)
    usual = {"http": 80, "https": 443}.get(parts.scheme)
    port = f":{parts.port}" if parts.port not in (None, usual) else ""
    host = parts.hostname or ""
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}{port}"


def fill_secret(command: Command, selector: str, text: str, origins: Collection[str]) -> bool:
    """Put `text` into the first visible match in the page's main document, where that is one of `origins`.

    Returns False without a match. Raises AccountError where the page, or what its form is sent to, is of another origin
    or of one that is not https.
    """
    if plain := [name for name in origins if not name.startswith("https://")]:
        raise AccountError(f"{plain[0]} is plain http: an account is sent over https only")
    frame = command("Page.getFrameTree", {})["frameTree"]["frame"]["id"]
    world = command("Page.createIsolatedWorld", {"frameId": frame, "worldName": "account"})
    given = command(
        "Runtime.callFunctionOn",
        {
            "functionDeclaration": _FILL,
            "executionContextId": world["executionContextId"],
            "arguments": [{"value": value} for value in (selector, text, list(origins))],
            "returnByValue": True,
        },
    )
    answer = given["result"].get("value")
    if "exceptionDetails" in given or answer is None:
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
