# SPDX-License-Identifier: Apache-2.0
"""The files of pages, and the server that gives every host of a page its own certificate."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sojourn.apps.standins.origin import Certificate, Http, ensure_certificate
from sojourn.apps.standins.web import bodies
from sojourn.apps.standins.web.pages import Kind, Resource, WebPage
from sojourn.hardware.machine import cache
from sojourn.hardware.machine.ip import as_host

#: The code that makes files: a change makes others.
_CODE = Path(__file__), Path(bodies.__file__)
_FILE = "site.json"
_ENDS: Mapping[Kind, str] = {"html": "html", "css": "css", "js": "js", "image": "png", "font": "ttf", "data": "bin"}
#: Loads a resource of a kind: what every script of a page calls. Same-host data are fetched, those of other hosts are
#: pictures, as beacons are, because only a server with CORS lets a page read the data of another host.
_LOADER = """<script>function L(k,u){const d=document,e=n=>d.createElement(n),a=(x,s)=>{Object.assign(x,s);
(d.body||d.documentElement).append(x)};if(k=="js")a(e("script"),{src:u,async:true});
else if(k=="image")a(e("img"),{src:u,width:160,height:110,alt:""});
else if(k=="html")a(e("iframe"),{src:u,width:160,height:110});
else if(k=="css")a(e("link"),{rel:"stylesheet",href:u});
else if(k=="beacon")new Image().src=u;
else fetch(u,k=="tiny"?{mode:"no-cors"}:{}).then(r=>r.blob()).catch(()=>0)}</script>"""
_STYLE = (
    "<style>body{margin:16px;font:15px/1.4 sans-serif}img,iframe{border:0;vertical-align:top;margin:2px}"
    "p{margin:6px 0}</style>"
)
#: An icon in the document: without it, a browser asks for /favicon.ico.
_ICON = '<link rel="icon" href="data:,">'
#: Width and height of a document's largest picture, of others, and of those of fewer than _SMALL bytes, px.
_HERO, _TILE, _DOT, _SMALL = (960, 400), (160, 110), (24, 24), 2048
#: Fewest bits per displayed pixel of the largest picture. LCP ignores pictures of fewer than 0.05 (Chromium's
#: docs/speed/metrics_changelog/2023_04_lcp.md).
_LEAST_BITS = 0.1


@dataclass(frozen=True)
class SitePage:
    """A page of a site: its address without the server's port, and bytes of every body by the path of its file."""

    host: str
    path: str
    hosts: int
    sizes: Mapping[str, int]
    unseen: Sequence[str]
    """Paths that the document's Resource Timing does not have: what frames and other hosts' style sheets load. They are
    complete when the page's load event is."""


@dataclass(frozen=True)
class WebSite:
    """The pages of a run in a folder that any server can serve: a path names one file, whatever the host."""

    folder: Path
    hosts: tuple[str, ...]
    pages: tuple[SitePage, ...]

    @classmethod
    def read(cls, folder: Path) -> WebSite:
        """Return the site that `ensure_site` wrote into a folder."""
        known = json.loads((folder / _FILE).read_text())
        return cls(folder, tuple(known["hosts"]), tuple(SitePage(**page) for page in known["pages"]))

    @property
    def digest(self) -> str:
        """The name of the folder: pages with the same one are the same."""
        return self.folder.name


def ensure_site(pages: Sequence[WebPage], seed: int) -> WebSite:
    """Return the site of these pages, written to the cache on first use; `seed` decides its noise."""
    code = ((file.name, file.read_bytes()) for file in _CODE)
    digest = cache.digest([*code, ("seed", str(seed).encode()), ("pages", repr(pages).encode())])
    folder = cache.build_once(cache.root() / "pages" / digest, lambda work: _write(work, pages, seed))
    site = WebSite.read(folder)
    for host in site.hosts:
        ensure_certificate(host)
    return site


def _write(folder: Path, pages: Sequence[WebPage], seed: int) -> None:
    known = []
    for number, page in enumerate(pages, 1):
        draw = random.Random(f"bodies {seed} {number}")
        (folder / f"p{number}").mkdir()
        files = PageFiles(page, number)
        sizes = {}
        for index in range(len(page.resources)):
            body, path = files.body(draw, index), files.path(index)
            (folder / path.lstrip("/")).write_bytes(body)
            sizes[path] = len(body)
        known.append(
            {
                "host": page.resources[0].host,
                "path": files.path(0),
                "hosts": len(page.hosts),
                "sizes": sizes,
                "unseen": [files.path(index) for index in files.unseen()],
            }
        )
    hosts = list(dict.fromkeys(host for page in pages for host in page.hosts))
    (folder / _FILE).write_text(json.dumps({"hosts": hosts, "pages": known}, indent=1) + "\n")
    cache.normalise_mtimes(folder)


class PageFiles:
    """The files of a page, and how each loads others."""

    def __init__(self, page: WebPage, number: int) -> None:
        self._page, self._number = page, number
        self._children: dict[int, list[int]] = {}
        for index, resource in enumerate(page.resources[1:], 1):
            self._children.setdefault(resource.parent, []).append(index)

    def path(self, index: int) -> str:
        """Return the path of a resource's file."""
        resource = self._page.resources[index]
        end = "png" if self._how(resource) == "beacon" else _ENDS[resource.kind]
        return f"/p{self._number}/{index}.{end}"

    def unseen(self) -> Iterator[int]:
        """Yield the resources that the document does not see, see `SitePage.unseen`."""
        every, hidden = self._page.resources, set[int]()
        for index, resource in enumerate(every[1:], 1):
            above = every[resource.parent]
            foreign = above.kind == "css" and above.host != every[0].host
            if resource.parent in hidden or foreign or (resource.parent and above.kind == "html"):
                hidden.add(index)
                yield index

    def _url(self, index: int) -> str:
        return f"//{self._page.resources[index].host}{self.path(index)}"

    def _how(self, resource: Resource) -> str:
        if resource.kind != "data" or resource.host == self._page.resources[0].host:
            return resource.kind
        return "beacon" if resource.bytes >= bodies.LEAST_PNG else "tiny"

    def _calls(self, indices: Sequence[int]) -> str:
        return "".join(f'L("{self._how(self._page.resources[it])}","{self._url(it)}");' for it in indices)

    def body(self, draw: random.Random, index: int) -> bytes:
        """Return the content of a resource's file."""
        resource, children = self._page.resources[index], self._children.get(index, [])
        match "image" if self._how(resource) == "beacon" else resource.kind:
            case "html":
                return self._document(draw, index, children)
            case "css":
                return bodies.style(draw, self._rules(children), resource.bytes)
            case "js":
                return bodies.script(draw, self._calls(children), resource.bytes)
            case "image":
                return bodies.picture(draw, resource.bytes, *self._pixels(index))
            case "font":
                return bodies.font(draw, resource.bytes)
        return draw.randbytes(resource.bytes)

    def _hero(self, document: int) -> int:
        """Return the largest picture that a document loads itself; 0 without one."""
        every = self._page.resources
        pictures = (it for it in self._children.get(document, ()) if every[it].kind == "image")
        return max(pictures, key=lambda it: every[it].bytes, default=0)

    def _pixels(self, index: int) -> tuple[int, int]:
        """Return width and height of a picture, px, which a document shows at this size.

        It is its natural size too, because Largest Contentful Paint counts the smaller area of both: that of a
        document's largest picture is larger than that of any paragraph.
        """
        resource = self._page.resources[index]
        if resource.bytes < _SMALL:
            return _DOT
        if self._page.resources[resource.parent].kind != "html" or self._hero(resource.parent) != index:
            return _TILE
        (width, height), pixels = _HERO, 8 * resource.bytes / _LEAST_BITS
        scale = min(1.0, (pixels / (width * height)) ** 0.5)
        return int(width * scale), int(height * scale)

    def _rules(self, children: Sequence[int]) -> str:
        rules = []
        for index in sorted(children, key=lambda it: self._page.resources[it].kind != "css"):  # imports come first
            url = f"url({self._url(index)})"
            match self._page.resources[index].kind:
                case "css":
                    rules.append(f"@import {url};\n")
                case "font":
                    rules.append(f"@font-face{{font-family:f{index};src:{url};font-display:swap}}")
                    rules.append(f".x{index}{{font-family:f{index},sans-serif}}\n")
                case _:
                    rules.append(f".x{index}{{background:{url};height:60px}}\n")
        return "".join(rules)

    def _document(self, draw: random.Random, index: int, children: Sequence[int]) -> bytes:
        every = self._page.resources
        head, parts, called, late = [_ICON, _STYLE, _LOADER] if not index or children else [], [], [], []
        hero = self._hero(index)
        if not index:
            parts.append(f"<h1>{bodies.words(draw, 4)}</h1>")
            # Elements that use what style sheets load.
            parts += [
                f'<p class="x{it}">{bodies.words(draw, 2)}</p>'
                for it, resource in enumerate(every[1:], 1)
                if every[resource.parent].kind == "css" and resource.kind in ("font", "image")
            ]
        for it in sorted(children, key=lambda it: it != hero):
            url = self._url(it)
            match every[it].kind:
                case "css":
                    head.append(f'<link rel="stylesheet" href="{url}">')
                case "js" if every[it].blocking:
                    head.append(f'<script src="{url}"></script>')
                case "js":
                    late.append(f'<script src="{url}" async></script>')
                case "image":
                    width, height = self._pixels(it)
                    # The largest one is below the heading, where the window shows it.
                    place = 1 if it == hero else len(parts)
                    parts.insert(place, f'<img src="{url}" width={width} height={height} alt="">')
                case "html":
                    parts.append(f'<iframe src="{url}" width={_TILE[0]} height={_TILE[1]}></iframe>')
                case _:
                    called.append(it)
        if called:
            late.append(f"<script>{self._calls(called)}</script>")
        # Scripts that do not block are announced in the head, as most pages do.
        return bodies.document(draw, [*head, *late], parts, every[index].bytes)


def caddyfile(address: str, port: int, http: Http, site: WebSite, log: Path) -> str:
    """Return the configuration of Caddy 2.6: every host has its own certificate, and nothing may be cached.

    Hosts with one certificate would share a connection (RFC 9113, 9.1.1).
    """
    hosts = "".join(
        f'https://{host}:{port} {{\n\timport page\n\ttls "{its.chain}" "{its.key}"\n}}\n'
        for host, its in certificates(site).items()
    )
    return f"""{{
	admin off
	auto_https off
	servers {{
		protocols h1 h2{" h3" if http == "h3" else ""}
	}}
}}
(page) {{
	bind {as_host(address)}
	header Cache-Control no-store
	header Access-Control-Allow-Origin *
	header Timing-Allow-Origin *
	root * "{site.folder}"
	file_server
	log {{
		output file "{log}" {{
			roll_disabled
		}}
		format json
	}}
}}
{hosts}"""


def certificates(site: WebSite) -> dict[str, Certificate]:
    """Return the certificate of every host."""
    return {host: ensure_certificate(host) for host in site.hosts}
