# SPDX-License-Identifier: Apache-2.0
"""Sojourn's HTTP/3 origin, as Chromium's HTTP/3 sees it, and its live playlists next to Caddy's."""

from __future__ import annotations

import base64
import json
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from socket import SOCK_DGRAM, create_connection, create_server, socket
from typing import Any

import pytest
from playwright.sync_api import sync_playwright

from sojourn.apps.browsers.browser import CHROMIUM
from sojourn.apps.standins import hls
from sojourn.apps.standins.clip import Clip
from sojourn.apps.standins.ladder import DEFAULT
from sojourn.apps.standins.origin import HOST, QUIC_CONTROLS, Origin, Site, ensure_server
from sojourn.hardware.machine.place import Place
from sojourn.hardware.machine.process import ProcessError
from sojourn.traffic import rust

#: Megabytes, so that flow control stops the server in between.
SEGMENT = bytes(range(256)) * 12_000
#: A repeated segment as Caddy's template: its own head, and the rest of another.
HEAD, SKIPPED = b"\0head of a repetition", 16
REPEATED = HEAD + b'<|sojourn:substr %d -1 (include "/0/1.m4s"):sojourn|>' % SKIPPED
PAGE = "<!doctype html><title>a page</title>"
_FETCH = """async ([path, options]) => {
  const answer = await fetch(path, options);
  const body = new Uint8Array(await answer.arrayBuffer());
  let text = '';
  for (let at = 0; at < body.length; at += 8192) text += String.fromCharCode(...body.subarray(at, at + 8192));
  const timed = performance.getEntriesByType('resource').at(-1);
  return [answer.status, Object.fromEntries(answer.headers), btoa(text), timed.nextHopProtocol];
}"""


@dataclass(frozen=True)
class Answer:
    status: int
    header: dict[str, str]
    body: bytes


Get = Callable[..., Answer]


@pytest.fixture(scope="module")
def program() -> Path:
    if missing := rust.missing_tools():
        pytest.skip(missing)
    return ensure_server()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("run")


@pytest.fixture(scope="module")
def site(run: Path) -> Site:
    page, media = run / "page", run / "media"
    page.mkdir()
    (media / "0").mkdir(parents=True)
    (page / "index.html").write_text(PAGE)
    (media / "0/1.m4s").write_bytes(SEGMENT)
    (media / "0/2.m4s").write_bytes(REPEATED)
    (media / "0/3.m4s").write_bytes(b"<|sojourn:now:sojourn|>")
    (run / "secret").write_text("not served")
    (media / "manifest.mpd").write_text("".join(f'<R codecs="avc1.64000{rung}"/>' for rung in range(len(DEFAULT))))
    (run / "live").mkdir()
    return Site(page, media, run / "live")


def playlists(site: Site, name: str, passed_s: float) -> str:
    """Write the playlists of a broadcast of a minute that began some seconds ago; return the path of one."""
    assert site.live
    clip = Clip(site.media, DEFAULT, 1800, 30, 60, tuple(rung.bps for rung in DEFAULT))
    hls.write_playlists(site.live / name, clip, (2,), 8, now=time.time() - passed_s)
    return f"/live/{name}/2.m3u8"


@pytest.fixture(scope="module")
def origins(program: Path, site: Site, run: Path) -> Iterator[tuple[Origin, Origin]]:
    """The HTTP/3 origin and Caddy, which serve the same site; `run` stands for the players' folder."""
    (run / "hls.min.js").write_text("// a player")
    with pytest.MonkeyPatch.context() as patch, create_server(("127.0.0.1", 0)) as free, socket(type=SOCK_DGRAM) as udp:
        patch.setattr("sojourn.apps.standins.origin.ensure_player", lambda: run)
        udp.bind(("127.0.0.1", 0))
        tcp_port, port = free.getsockname()[1], udp.getsockname()[1]
        free.close()
        udp.close()
        origin = Origin.start_noq(Place("here"), "127.0.0.1", site, run, program, "bbr3", port=port)
        (caddys := run / "caddy").mkdir()
        caddy = Origin.start(Place("here"), "127.0.0.1", site, caddys, port=tcp_port)
    yield origin, caddy
    origin.stop()
    caddy.stop()


@pytest.fixture(scope="module")
def get(origins: tuple[Origin, Origin]) -> Iterator[Get]:
    """What Chromium gets for a path, by HTTP/3."""
    origin, _ = origins
    flags = [
        f"--ignore-certificate-errors-spki-list={origin.certificate.spki}",
        f"--host-resolver-rules=MAP {HOST} 127.0.0.1",
        f"--origin-to-force-quic-on={HOST}:{origin.port}",
        "--disable-gpu",
    ]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=flags)
        page = browser.new_page()
        page.goto(f"{origin.url}/watch?v=film")
        assert page.title() == "a page"

        def get(path: str, method: str = "GET", **header: str) -> Answer:
            said: Any = page.evaluate(_FETCH, [path, {"method": method, "headers": header}])
            status, headers, body, protocol = said
            assert protocol == "h3"
            return Answer(status, headers, base64.b64decode(body))

        yield get
        browser.close()


def test_a_file_is_served_as_a_whole_and_never_cached(get: Get) -> None:
    answer = get("/media/0/1.m4s")
    assert answer.status == 200 and answer.body == SEGMENT
    assert answer.header["cache-control"] == "no-store" and answer.header["content-length"] == str(len(SEGMENT))
    assert get("/watch").body.decode() == get("/").body.decode() == get("/index.html").body.decode() == PAGE
    assert get("/watch").header["content-type"].startswith("text/html")
    assert get("/hls.min.js").body == b"// a player"
    head = get("/media/0/1.m4s", "HEAD")
    assert (head.status, head.body, head.header["content-length"]) == (200, b"", str(len(SEGMENT)))


@pytest.mark.parametrize(
    ("asked", "first", "last"),
    [
        ("bytes=0-0", 0, 0),
        ("bytes=100-199", 100, 199),
        (f"bytes={len(SEGMENT) - 3}-", len(SEGMENT) - 3, len(SEGMENT) - 1),
        ("bytes=10-99999999", 10, len(SEGMENT) - 1),
        ("bytes=-7", len(SEGMENT) - 7, len(SEGMENT) - 1),
        ("bytes=-99999999", 0, len(SEGMENT) - 1),
    ],
)
def test_a_range_is_served_alone(get: Get, asked: str, first: int, last: int) -> None:
    answer = get("/media/0/1.m4s", Range=asked)
    assert (answer.status, answer.header["content-range"]) == (206, f"bytes {first}-{last}/{len(SEGMENT)}")
    assert answer.body == SEGMENT[first : last + 1]


@pytest.mark.parametrize("asked", [f"bytes={len(SEGMENT)}-", "bytes=-0"])
def test_a_range_that_a_file_does_not_have_is_refused(get: Get, asked: str) -> None:
    answer = get("/media/0/1.m4s", Range=asked)
    assert (answer.status, answer.header["content-range"], answer.body) == (416, f"bytes */{len(SEGMENT)}", b"")


@pytest.mark.parametrize("asked", ["bytes=5-3", "bytes=1-2,5-6", "lines=1-2", "bytes=x-"])
def test_a_range_that_is_none_is_ignored(get: Get, asked: str) -> None:
    assert get("/media/0/1.m4s", Range=asked).body == SEGMENT


def test_a_repeated_segment_is_its_head_and_the_rest_of_the_original(get: Get) -> None:
    whole = HEAD + SEGMENT[SKIPPED:]
    answer = get("/media/0/2.m4s")
    assert answer.body == whole and answer.header["content-length"] == str(len(whole))
    assert get("/media/0/2.m4s", Range="bytes=15-39").body == whole[15:40]
    assert get("/media/0/3.m4s").status == 500  # no guess of what another template means


@pytest.mark.parametrize("path", ["/nothing", "/media/0/9.m4s", "/media/", "/live/../secret", "/media/%2e%2e/secret",
                                  "/media/..%2fsecret", "/media//etc/passwd", "/%ff", "/media/%"])  # fmt: skip
def test_what_the_site_does_not_have_is_not_found(get: Get, path: str) -> None:
    assert (get(path).status, get(path).body) == (404, b"")


def test_nothing_is_accepted(get: Get) -> None:
    assert get("/watch", "POST").status == 405


def test_a_live_playlist_is_that_of_caddy(site: Site, origins: tuple[Origin, Origin], get: Get) -> None:
    """At the start, in the middle, and after the last segment; the window slides every 2 s."""
    _, caddy = origins

    def by_caddy(path: str) -> str:
        trusting = ssl.create_default_context(cafile=str(caddy.certificate.authority))
        connection = HTTPConnection(HOST, caddy.port)
        connection.sock = trusting.wrap_socket(create_connection(("127.0.0.1", caddy.port), 30), server_hostname=HOST)
        with closing(connection):
            connection.request("GET", path)
            return connection.getresponse().read().decode()

    lengths = []
    for name, passed_s in (("start", 0.2), ("middle", 21.2), ("end", 47.2), ("over", 70)):
        path = playlists(site, name, passed_s)
        for _ in range(20):
            before, answer, after = by_caddy(path), get(path), by_caddy(path)
            if before == after:
                break
        assert answer.body.decode() == before
        assert answer.header["content-type"] == "application/vnd.apple.mpegurl"
        lengths.append(before.count("#EXTINF:2.0,"))
    assert lengths[0] == lengths[1] == 8 and 0 < lengths[2] < 8 and lengths[3] == 0
    master = "/live/start/master.m3u8"
    assert get(master).body.decode() == by_caddy(master)


def test_access_log_has_caddys_fields(run: Path, origins: tuple[Origin, Origin], get: Get) -> None:
    def lines(file: Path) -> list[dict[str, Any]]:
        return [json.loads(line) for line in file.read_text().splitlines()]

    get('/nothing?say="ž\\"', Range="bytes=1-")
    mine, caddys = lines(run / "origin.jsonl"), lines(run / "caddy/origin.jsonl")
    line = mine[-1]
    request = line["request"]
    assert (request["method"], request["proto"], line["status"], line["size"]) == ("GET", "HTTP/3.0", 404, 0)
    assert request["uri"] == "/nothing?say=%22%C5%BE\\%22" and request["headers"]["Range"] == ["bytes=1-"]
    assert request["host"] == f"{HOST}:{origins[0].port}" and abs(line["ts"] - time.time()) < 60
    served = next(it for it in mine if it["request"]["uri"] == "/media/0/1.m4s" and it["status"] == 200)
    assert served["size"] == len(SEGMENT) and 0 < served["duration"] < 60
    assert line.keys() <= caddys[-1].keys() and request.keys() <= caddys[-1]["request"].keys()


@pytest.mark.parametrize("control", QUIC_CONTROLS)
def test_it_has_the_controls_that_the_option_names(program: Path, site: Site, tmp_path: Path, control: str) -> None:
    with socket(type=SOCK_DGRAM) as udp:
        udp.bind(("127.0.0.1", 0))
        port = udp.getsockname()[1]
    Origin.start_noq(Place("here"), "127.0.0.1", site, tmp_path, program, control, port=port).stop()


def test_what_it_lacks_ends_it_with_the_reason(program: Path, site: Site, tmp_path: Path) -> None:
    with pytest.raises(ProcessError, match="reno; known: bbr3, cubic, newreno, prague"):
        Origin.start_noq(Place("here"), "127.0.0.1", site, tmp_path, program, "reno", port=1)
