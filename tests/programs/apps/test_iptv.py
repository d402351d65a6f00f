# SPDX-License-Identifier: Apache-2.0
"""The adapter against a television site of ours, served over https, in a real Chromium."""

from __future__ import annotations

import secrets
import ssl
import threading
from collections.abc import Iterator
from http.cookies import SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import BrowserContext, Route, sync_playwright

from sojourn.apps.base import ServiceError
from sojourn.apps.browsers.account import StorageState
from sojourn.apps.browsers.browser import CHROMIUM
from sojourn.apps.credentials import Credentials, let_in
from sojourn.apps.iptv import Iptv, StreamError, asking, refusal, wait_playing
from sojourn.apps.standins.origin import ensure_certificate, ensure_player
from sojourn.captures.player import SCRIPT
from sojourn.hardware.machine.errors import Code
from tests.programs.apps.tab import Tab
from tests.refusals import refusal as refused

# A channel whose moving picture comes from a canvas.
CHANNEL = """<video muted autoplay style="width:320px;height:180px"></video><canvas width="64" height="36"></canvas>
<script>
  const context = document.querySelector('canvas').getContext('2d');
  let n = 0;
  setInterval(() => { context.fillStyle = n++ % 2 ? 'red' : 'blue'; context.fillRect(0, 0, 64, 36); }, 30);
  document.querySelector('video').srcObject = document.querySelector('canvas').captureStream(30);
</script>"""
FORM = """<form method="post" action="/login">{said}
  <input type="email" name="user"><input type="password" name="password"><button>Přihlásit</button></form>"""
REFUSED = '<p role="alert">Wrong user or password</p>'
EXPIRED = "<h1>Sorry</h1><p>Platnost přihlášení vypršela. Přihlaste se znovu.</p>"
ACCOUNT = {"user": ["me@tv.test"], "password": ["hunter2"]}


class Television(BaseHTTPRequestHandler):
    """A site with a login form, sessions in a cookie, a front page after the login, and a channel."""

    sessions: set[str]
    channel = ""  # what /channel shows to who is logged in; empty: the channel
    posted: list[str]
    spki: str  # of its certificate

    def do_GET(self) -> None:
        cookie = SimpleCookie(self.headers.get("Cookie", ""))
        known = "session" in cookie and cookie["session"].value in self.sessions
        if self.path == "/channel":
            self.answer((self.channel or CHANNEL) if known else FORM.format(said=""))
        else:
            self.answer("<h1>All channels</h1>")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.posted.append(body)
        if parse_qs(body) != ACCOUNT:
            return self.answer(FORM.format(said=REFUSED))
        session = secrets.token_hex(8)
        self.sessions.add(session)
        self.send_response(303)
        self.send_header("Set-Cookie", f"session={session}; Secure; HttpOnly; Path=/")
        self.send_header("Location", "/")
        self.end_headers()

    def answer(self, page: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(page.encode())

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[type[Television], str]]:
    """The site's handler, fresh for each test, and its address."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SOJOURN_CACHE", str(tmp_path_factory.mktemp("cache")))
        certificate = ensure_certificate()
    handler = type("Site", (Television,), {"sessions": set(), "posted": [], "spki": certificate.spki})
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.chain, certificate.key)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        yield handler, f"https://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with sync_playwright() as playwright:
        flags = ["--disable-gpu", "--disable-web-security", "--autoplay-policy=no-user-gesture-required"]
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=flags)
        yield browser
        browser.close()


@pytest.fixture
def context(chromium: Any) -> Iterator[BrowserContext]:
    context = chromium.new_context(ignore_https_errors=True)
    yield context
    context.close()


@pytest.fixture
def tab(context: BrowserContext) -> Tab:
    return Tab(context.new_page())


def account(**given: Any) -> Credentials:
    return Credentials("--credentials=tv.toml", **given)


def watch(tab: Tab, url: str, credentials: Credentials | None, timeout: float = 20) -> None:
    let_in(tab, credentials, url)
    tab.open(url)
    wait_playing(tab, url, credentials, timeout)


def test_login_leads_to_the_channel(tab: Tab, site: tuple[type[Television], str]) -> None:
    handler, url = site
    watch(tab, f"{url}/channel", account(user="me@tv.test", password="hunter2"))
    assert tab.page.url == f"{url}/channel"
    assert tab.evaluate(asking())["playing"]
    assert len(handler.posted) == 1


#: The user's page, then the password's, as identity providers have them; a newsletter asks for an address as well.
FIRST = """<form action="/news"><input type="email" name="news"><button>Subscribe</button></form>
  <form action="/second"><input name="username" autocomplete="username"><button>Continue</button></form>"""
SECOND = """<form method="post" action="/login"><input type="hidden" name="user" value="{user}">{said}
  <input type="password" name="password"><button>Log in</button></form>"""


def test_login_in_two_steps_leads_to_the_channel(tab: Tab, site: tuple[type[Television], str]) -> None:
    handler, url = site

    def first(self: Television) -> None:
        if self.path.startswith("/second"):
            return self.answer(SECOND.format(user=parse_qs(urlsplit(self.path).query)["username"][0], said=""))
        cookie = SimpleCookie(self.headers.get("Cookie", ""))
        known = "session" in cookie and cookie["session"].value in self.sessions
        return self.answer((CHANNEL if known else FIRST) if self.path == "/channel" else "<h1>All channels</h1>")

    handler.do_GET = first  # type: ignore[method-assign]
    watch(tab, f"{url}/channel", account(user="me@tv.test", password="hunter2"))
    assert tab.evaluate(asking())["playing"] and [parse_qs(body) for body in handler.posted] == [ACCOUNT]


def test_a_user_that_the_first_step_does_not_know_is_told(tab: Tab) -> None:
    said = '<p role="alert">me@tv.test is unknown</p>'
    serve(tab, {"https://tv.test/": FIRST, "https://tv.test/second?username=me%40tv.test": said + FIRST})
    with refused(ServiceError, "no-picture", "… is unknown"):
        watch(tab, "https://tv.test/", account(user="me@tv.test", password="hunter2"), timeout=5)


PROTECTED = """<video style="width:320px;height:180px"></video><script>
  navigator.requestMediaKeySystemAccess('com.widevine.alpha', [{ initDataTypes: ['cenc'],
    videoCapabilities: [{ contentType: 'video/mp4; codecs="avc1.42E01E"' }] }]).catch(() => {});
</script>"""


@pytest.mark.parametrize(
    ("content", "said"), [(PROTECTED, "com.widevine.alpha: NotSupportedError"), ("<p>Widevine is missing</p>", "Wid")]
)
def test_a_film_for_which_the_browser_has_no_key_is_told(tab: Tab, content: str, said: str) -> None:
    """Debian's Chromium has no Widevine."""
    tab.page.add_init_script(path=SCRIPT)
    serve(tab, {"https://tv.test/": content})
    with refused(ServiceError, "no-picture", "--browser", said):
        watch(tab, "https://tv.test/", None, timeout=2)


#: Shows to the page's own scripts what it was sent and keeps.
KEEPS = "<script>document.title = [document.cookie, localStorage.getItem('token')].join(' ')</script>"


def test_a_storage_state_goes_to_its_own_sites_alone(tab: Tab, context: BrowserContext) -> None:
    sent: dict[str, str] = {}

    def answer(route: Route) -> None:
        sent[str(urlsplit(route.request.url).hostname)] = route.request.all_headers().get("cookie", "")
        route.fulfill(body=KEEPS, content_type="text/html")

    context.route("**/*", answer)
    hosts = ("www.tv.test", "login.test", "thief.test")
    cookies = [
        {"name": "wide", "value": "1", "domain": ".tv.test", "httpOnly": True, "sameSite": "Lax"},
        {"name": "other", "value": "2", "domain": "sub.tv.test"},
        *({"name": "own", "value": host, "domain": host, "expires": 4e9} for host in hosts),
    ]
    kept = [{"origin": f"https://{host}", "localStorage": [{"name": "token", "value": f"t-{host}"}]} for host in hosts]
    state = StorageState.model_validate({"cookies": cookies, "origins": kept})
    let_in(tab, account(state=state, origins="https://login.test"), "https://www.tv.test/channel")
    titles = {}
    for host in hosts:
        tab.open(f"https://{host}/")
        titles[host] = tab.page.title()
    assert sent == {"www.tv.test": "wide=1; own=www.tv.test", "login.test": "own=login.test", "thief.test": ""}
    assert titles["www.tv.test"] == "own=www.tv.test t-www.tv.test"  # what is HttpOnly is no script's
    assert titles["login.test"].endswith("t-login.test") and "t-" not in titles["thief.test"]
    assert {cookie["secure"] for cookie in context.cookies()} == {True}
    tab.open("https://www.tv.test/")
    tab.evaluate("() => localStorage.setItem('token', 'renewed')")
    tab.open("https://www.tv.test/")
    assert tab.page.title().endswith(" renewed")


@pytest.mark.parametrize(
    ("url", "why"),
    [
        (
            "https://elsewhere.test/",
            ("missing", "--credentials=tv.toml: ", "https://elsewhere.test"),
        ),
        ("http://tv.test/", ("insecure", "--credentials=tv.toml: ", "http://tv.test")),
    ],
)
def test_a_storage_state_of_other_sites_is_refused(tab: Tab, url: str, why: tuple[Code, *tuple[str, ...]]) -> None:
    state = StorageState.model_validate({"cookies": [{"name": "a", "value": "b", "domain": "tv.test"}]})
    with refused(ServiceError, *why):
        let_in(tab, account(state=state), url)


def test_session_cookie_leads_to_the_channel(tab: Tab, site: tuple[type[Television], str]) -> None:
    handler, url = site
    handler.sessions.add("abc")
    watch(tab, f"{url}/channel", account(cookie="theme=dark; session=abc"))
    assert tab.evaluate(asking())["playing"] and not handler.posted


def test_expired_session_cookie_is_told(tab: Tab, site: tuple[type[Television], str]) -> None:
    _, url = site
    with refused(ServiceError, "refused", "--credentials=tv.toml ", "session") as wrong:
        watch(tab, f"{url}/channel", account(cookie="session=0123abc"))
    assert "0123abc" not in str(wrong.value)


def test_page_that_says_that_the_token_has_expired_is_quoted(tab: Tab, site: tuple[type[Television], str]) -> None:
    handler, url = site
    handler.sessions.add("abc")
    handler.channel = EXPIRED
    with refused(ServiceError, "refused", "--credentials=tv.toml", "Platnost přihlášení vypršela"):
        watch(tab, f"{url}/channel", account(cookie="session=abc"))


def test_session_that_ends_in_mid_run_is_noticed(tab: Tab, site: tuple[type[Television], str]) -> None:
    handler, url = site
    mine = account(user="me@tv.test", password="hunter2")
    watch(tab, f"{url}/channel", mine)
    assert refusal(tab.evaluate(asking()), mine) is None
    handler.sessions.clear()
    tab.open(f"{url}/channel")
    assert (refusal(tab.evaluate(asking()), mine) or "").startswith("the login was refused")


def test_refused_login_quotes_the_page_and_is_tried_once(tab: Tab, site: tuple[type[Television], str]) -> None:
    handler, url = site
    with refused(ServiceError, "refused", "--credentials=tv.toml", "Wrong user or pass") as wrong:
        watch(tab, f"{url}/channel", account(user="me@tv.test", password="hunter3"))
    assert len(handler.posted) == 1 and "hunter3" not in str(wrong.value)


def test_login_without_an_account_is_told(tab: Tab, site: tuple[type[Television], str]) -> None:
    with refused(ServiceError, "refused", "login", "--credentials"):
        watch(tab, f"{site[1]}/channel", None)


def test_password_is_not_sent_over_plain_http(tab: Tab) -> None:
    serve(tab, {"http://tv.test/": FORM.format(said="")})
    with refused(ServiceError, "insecure", "http://tv.test", "account"):
        watch(tab, "http://tv.test/", account(user="me", password="hunter2"))
    assert tab.page.locator("input[type=password]").input_value() == ""
    with refused(ServiceError, "insecure", "http://tv.test", "cookie"):
        watch(tab, "http://tv.test/", account(cookie="session=abc"))


def serve(tab: Tab, pages: dict[str, str]) -> list[str]:
    """Let the tab find these pages; return what is posted, as it is."""
    posted: list[str] = []

    def answer(route: Route) -> None:
        posted.append(route.request.post_data or "")
        route.fulfill(body=pages.get(route.request.url, "<h1>nothing</h1>"), content_type="text/html; charset=utf-8")

    tab.page.route("**/*", answer)
    return posted


#: Whatever a fill could call tells the page what it is given, and says yes.
SPY = """<script>
  const tell = (all) => { for (let i = 0; i < all.length; i++) document.title += ' ' + all[i]; return true; };
  for (const [owner, name] of [
    [Array.prototype, 'find'], [Document.prototype, 'querySelectorAll'], [String.prototype, 'startsWith'],
    [JSON, 'parse'], [Object, 'entries'], [Reflect, 'apply'],
  ]) {
    const own = owner[name];
    owner[name] = function () { tell(arguments); return own.apply(this, arguments); };
  }
  const { set } = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value');
  Object.defineProperty(HTMLInputElement.prototype, 'value', { set(text) { tell([text]); set.call(this, text); } });
  Array.prototype.includes = function () { return tell(arguments); };
  addEventListener('input', (event) => tell([event.target.value]), true);
</script>"""


def test_account_is_typed_in_at_its_own_sites_alone(tab: Tab) -> None:
    serve(tab, {"https://thief.test/": SPY + FORM.format(said="")})
    with refused(ServiceError, "other-site", "https://thief.test", "https://tv.test"):
        tab.open("https://thief.test/")
        wait_playing(tab, "https://tv.test/", account(user="me@tv.test", password="hunter2"), timeout=10)
    title = tab.page.title()
    assert "input" in title  # the spies tell what they hear
    assert "hunter2" not in title and "me@tv.test" not in title


def test_a_site_that_the_account_names_is_its_own(tab: Tab) -> None:
    posted = serve(tab, {"https://login.test/": FORM.format(said=""), "https://login.test/login": EXPIRED})
    given = account(user="me@tv.test", password="hunter2", origins="https://login.test")
    with refused(ServiceError, "refused", "login", "--credentials"):
        tab.open("https://login.test/")
        wait_playing(tab, "https://tv.test/", given, timeout=10)
    assert parse_qs(posted[-1]) == ACCOUNT


def test_form_that_sends_elsewhere_gets_nothing(tab: Tab) -> None:
    form = FORM.format(said="").replace("/login", "//thief.test/login")
    posted = serve(tab, {"https://tv.test/": form})
    with refused(ServiceError, "other-site", "https://thief.test"):
        watch(tab, "https://tv.test/", account(user="me", password="hunter2"))
    assert not any(posted) and tab.page.locator("input[type=password]").input_value() == ""


def test_cookie_goes_to_its_own_site_also_when_the_page_moved_on(tab: Tab, context: BrowserContext) -> None:
    sent: dict[str, str] = {}

    def answer(route: Route) -> None:
        host = str(urlsplit(route.request.url).hostname)
        sent[host] = route.request.all_headers().get("cookie", "")
        elsewhere = "<script>location = 'https://thief.test/'</script>" if host == "tv.test" else FORM.format(said="")
        route.fulfill(body=elsewhere, content_type="text/html")

    context.route("**/*", answer)
    let_in(tab, account(cookie="theme=x; session=abc"), "https://tv.test/")
    tab.open("https://tv.test/")
    tab.page.wait_for_url("https://thief.test/")
    assert "session=abc" in sent["tv.test"] and sent["thief.test"] == ""
    (session,) = (cookie for cookie in context.cookies() if cookie["name"] == "session")
    assert (session["domain"], session["secure"]) == ("tv.test", True)


@pytest.mark.parametrize("name", ["live.m3u8", "film.mpd"])
def test_unreachable_stream_is_told(tab: Tab, name: str, site: tuple[type[Television], str]) -> None:
    """Nothing listens at port 9 (discard)."""
    service = Iptv(url=f"http://127.0.0.1:9/{name}")
    page, flags = service.address()
    assert flags == ("--disable-web-security",) and not service.standin
    tab.open(page)
    with refused(ServiceError, "unreachable", f"--url=http://127.0.0.1:9/{name}: "):
        service.await_playing(tab)  # type: ignore[arg-type]


def test_stream_whose_token_has_expired_is_told(tab: Tab) -> None:
    page, _ = Iptv(url="https://tv.test/live.m3u8").address()
    tab.page.route("https://tv.test/**", lambda route: route.fulfill(status=403, body="token expired"))
    tab.open(page)
    with refused(StreamError, "no-stream", "HTTP 403", "token"):
        wait_playing(tab, "", None, timeout=20)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"live": True}, ("missing", "--service=iptv --live: ", "--url=")),
        ({"url": "tv.test/live.m3u8"}, ("invalid-value", "--url=tv.test/live.m3u8: ")),
        ({"url": "file:///etc/passwd"}, ("invalid-value", "--url=file:///etc/passwd: ")),
        ({"buffer": 0.5}, ("out-of-range", "buffer=0.5 ", " 2 to 120 s")),
    ],
)
def test_bad_options_are_named(options: dict[str, Any], why: tuple[Code, *tuple[str, ...]]) -> None:
    with refused(ServiceError, *why):
        Iptv(**options)


@pytest.mark.parametrize(
    ("url", "port"),
    [("", 443), ("https://tv.test/a.m3u8", 443), ("http://tv.test/a.mpd", 80), ("http://tv.test:8080/a.m3u8", 8080)],
)
def test_port_is_that_of_the_stream(url: str, port: int) -> None:
    assert Iptv(url=url).port == port


def test_players_are_installed() -> None:
    assert (ensure_player() / "hls.min.js").exists()
