# SPDX-License-Identifier: Apache-2.0
"""What names a user's machine, login, sites or the public net, replaced in text and JSON: the same by the same.

Names are found by their form (addresses, host names, paths, e-mail addresses) or were learned from where they stand for
themselves (`/home/NAME`, `"hostname": …`). In doubt something is replaced: `module.function` in a log looks
like a host. What takes their place counts up in the order of appearance and so tells nothing of them.
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import quote, unquote

from pydantic import BaseModel

from bottleneck.qdiscs import KINDS
from harness.bundle.research_object import CRATE, TOLD
from harness.options.model import OPTIONS
from harness.store.manifest import MANIFEST, SIGNATURE, Manifest
from scoring.schema import records
from scoring.schema.scores import Scores
from traffic.contender import CONTENDERS
from traffic.load import KNOWN

#: What stays: the labs that are ours alone, this host, nobody, everybody (RFC 6890), and netmasks.
_KEPT = [
    ipaddress.IPv4Network(text) for text in ("10.42.0.0/16", "127.0.0.0/8", "0.0.0.0/8", "224.0.0.0/4", "255.0.0.0/8")
]
_KEPT6 = [ipaddress.IPv6Network(text) for text in ("fd42:1::/64", "fd42:2::/64", "::/127")]
#: Before an IPv4 address in an IPv6 one (RFC 4291).
_MAPPED = bytes(10) + b"\xff\xff"
_KEPT_MACS = {bytes(6), b"\xff" * 6}
#: Addresses for benchmarks (RFC 2544), for documentation (RFC 3849), and locally administered ones.
_SPARE, _SPARE6, _SPARE_MAC = 0xC6120000, 0x20010DB8 << 96, 0x02 << 40
_SPARES = (1 << 17) - 1
_REMEMBERED = 1 << 16

_IPV4 = r"(?:25[0-5]|2[0-4]\d|1?\d?\d)(?:\.(?:25[0-5]|2[0-4]\d|1?\d?\d)){3}"
_LABEL = r"[\w-]{1,63}"
#: Ends of file names that are no top-level domain.
_FILES = frozenset(
    (
        *("json", "jsonl", "log", "html", "csv", "tsv", "toml", "css", "js", "txt", "gz", "zst", "pcapng", "pcap"),
        *("tar", "svg", "png", "conf", "service", "xz", "deb", "img", "config", "webm", "mkv", "mpd", "partial"),
    )
)
#: The same that are domains; a host has no underscore in its name.
_SOURCES = frozenset(("py", "sh", "so", "md"))
#: Top-level domains that name nothing (RFC 2606, RFC 6761); below .example only what stands for a site does.
_NOBODY = frozenset(("test", "invalid", "localhost"))
_PSEUDONYM = re.compile(r"site-\d+\.example")
#: Folders that every system has.
_SYSTEM = "usr|bin|sbin|lib|lib64|etc|proc|sys|dev|run|boot"

_CONTENDERS = "|".join(map(re.escape, KNOWN))
#: The end of an upload in a load (traffic/load.py), and what stands before nobody's name at a host: such an upload.
_UP = r"up(?![\w.]|-\D)"
_NO_LOAD = rf"(?!(?:(?:\d+|up)\+)?(?:(?:{_CONTENDERS})\+)*(?:{_CONTENDERS})@{_UP})"

_PATTERNS = {
    "url": r"\b[A-Za-z][A-Za-z0-9+.-]{0,20}://[^\s\"'<>\\]*",
    "key": r"\bSHA256:[A-Za-z0-9+/]{43}=?(?![A-Za-z0-9+/])"
    r"|\bMD5:(?:[0-9a-f]{2}:){15}[0-9a-f]{2}(?![:\w])"
    r"|\bAAAA[BCEGI][A-Za-z0-9+/]{20,}={0,3}",
    "mail": rf"(?<![\w.+%-]){_NO_LOAD}" + r"[\w.+%-]+@(?:[^\W\d][\w.-]*|\[?" + _IPV4 + r"\]?)",
    # As /etc/machine-id has it, and disks' and partitions' names.
    "machine": r"(?<![0-9A-Za-z])(?:[0-9a-f]{32}|[0-9A-F]{32})(?![0-9A-Za-z])",
    # A claim on a router (bottleneck/lease.py) tells the boot's.
    "uuid": r"(?<![^\W_])[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}(?!\w)",
    "nic": r"(?<![^\W_])(?:en|ib|sl|wl|ww)x[0-9a-f]{12}(?!\w)",
    "mac": r"(?<![\w-])(?<!::)(?:[0-9A-Fa-f]{2}[:-]){5}[0-9A-Fa-f]{2}(?![\w:-])"
    # As switches write it.
    r"|(?<![\w.-])(?:[0-9A-Fa-f]{4}\.){2}[0-9A-Fa-f]{4}(?![\w-]|\.\w)",
    "ipv6": r"(?<![^\W_])(?<!\.)(?<!::)(?=[0-9A-Fa-f]{0,45}:[0-9A-Fa-f]{0,45}:)[0-9A-Fa-f:]{2,45}(?:"
    + _IPV4 + r")?(?![\w:]|\.\d+\.\d)",
    "site": rf"(?<![\w.-])(?:{_LABEL}\.)+(?:[^\W\d_]{{2,24}}|xn--[a-z0-9-]+)\.?(?![\w-]|\.\w)",
    # After an address tcpdump writes a dot and the port.
    "ipv4": rf"(?<![\d.]){_IPV4}(?!\d|\.\d+\.\d)",
    "quoted": rf"%2[Ff](?!(?:{_SYSTEM})%2[Ff])(?:[\w.~+-]|%(?!2[Ff])..)*%2[Ff][\w.~+%-]*",
    # C:\Users\NAME and \\SERVER\share, as they are or escaped; what is before a backslash may have spaces.
    "windows": r"(?<!\w)[A-Za-z]:(?:\\{1,2}[^\\/:*?\"<>|\r\n]*(?=\\))*\\{1,2}[^\s\\/:*?\"<>|]*"
    r"|(?<![\\\w])\\\\[\w.$-]+(?:\\(?!\\)[^\s\\/:*?\"<>|]+)+"
    r"|(?<![\\\w])\\{4}[\w.$-]+(?:\\\\(?!\\)[^\s\\/:*?\"<>|]+)+",
    "path": rf"(?<![\w.:/<\\-])/(?!(?:{_SYSTEM})/)(?:[^\s/\"'<>|:;,()]+/)+[^\s/\"'<>|:;,()]*",
}  # fmt: skip
_FOUND = re.compile("|".join(f"(?P<{kind}>{pattern})" for kind, pattern in _PATTERNS.items()))
_HEADERS = r"(?:set-|proxy-)?(?:cookie|authorization)s?"
_SECRETS = r"[\w-]{0,40}(?:token|password|passwd|secret|api[_-]?key|session[_-]?id|signature|hmac|jwt|credentials?)"
#: The same where they are all of a word: of a site's address that says who may watch.
_SECRETS += r"|(?:x-)?(?:auth|sig|sid|hdnts|hdnea|hdntl|psk|pwd|passphrase|ticket|access[_-]?key|key[_-]?pair[_-]?id)"
_SECRETS = rf"(?:{_SECRETS}|private[_-]?key|preshared[_-]?key)"
#: What tells one machine or net from all others, by what stands before it.
_SERIALS = r"(?:id_)?serials?(?:[ _-]?(?:number|no|short))?|s/n|asset[ _-]?tag|[eb]?ssids?|machine[_-]?id"
#: Of a modem and its card.
_SERIALS += r"|imei(?:sv)?|imsi|iccid|meid"
#: After these comes what a page showed, an account's name too.
_QUOTED = r"the page says: |the page shows |the button |the player reports: |its token has expired or is wrong: "
_SESSION_KEY = re.compile(rf"(?i){_HEADERS}|{_SECRETS}|{_SERIALS}")
_SESSIONS = re.compile(
    rf"(?i)\b({_HEADERS}\\?[\"']?\s*[:=]\s*)(?=\S).+"
    rf"|\b({_SECRETS}\\?[\"']?\s*[:=]\s*)[^\s&;,]+"
    r"|\b(bearer\s+)[\w.+/~=-]{8,}"
    rf"|(?<![^\W_])((?:{_SERIALS})\\?[\"']?\s*[:=]\s*\\?[\"']?)(?!name-\d)[^\"',;\n]+"
    r"|((?:^|\s)ssid )[^\n]+"
    r"|\b((?:imei(?:sv)?|imsi|iccid|meid) )\d[\d /-]{10,24}"
    r"|(/dev/(?:disk|serial)/by-\w+/)[^\s\"',;]+"
    r"|\b(pass(?:word|phrase)\s*[:=]\s+)[^\n]+"
    rf"|({_QUOTED})[^\n]+"
)

_NAMED = r"host_?name|node_?name|user_?name|user|login|account"
_NAMED_KEY = re.compile(_NAMED)
#: Where a name stands for itself.
_TOLD = [
    re.compile(pattern)
    for pattern in (
        r"(?:/|%2[Ff])(?:home|Users)(?:/|%2[Ff])((?:(?!%2[Ff])[^/\s\"':,;])+)",
        r"[A-Za-z]:\\{1,2}Users\\{1,2}([^\\/:*?\"<>|\s]+)",
        r"pytest-of-([\w.-]+)",
        r"\b(?:USER|LOGNAME|SUDO_USER|HOSTNAME|USERNAME)=[\"']?([\w.@-]+)",
        r"\bhostname:? [\"']?([\w.-]+)",
        r"\bconnect to host (\S+) port",
        r"\bLinux (?!version\b)([\w.-]+) \d+\.\d+",
        rf"(?<![\w.+%-]){_NO_LOAD}" + r"([\w.+%-]{1,64})@[^\W\d]",
        rf"[\w+%-]@(?!{_UP})([^\W\d][\w-]*)",
        rf"\"(?:{_NAMED})\"\s*:\s*\"([^\"]+)\"",
    )
]
#: Words of Sojourn's own: a host that is called so has told nothing.
_ROLES = frozenset(
    word.casefold()
    for word in (
        *("root", "localhost", "client", "server", "router", "sender", "receiver", "local", "hub", "user", "host"),
        *("admin", "none", "unknown", "virtual", "apu", "solo", "picture", "strip", "blind", "player", "screen"),
        *("contender", "victim", "probe", "service", "box", "black-box"),
        *CONTENDERS,
        *KINDS,
        *(key for shape in vars(records).values() for key in getattr(shape, "__annotations__", ())),
    )
)
#: Files that a run of any kind may have.
FILES = frozenset(
    (
        *(*TOLD, MANIFEST, SIGNATURE, CRATE),
        *("irtt.json", "irtt.log", "screen.log", "client.log", "server.log", "caddy.log", "setup.log", "teardown.log"),
        *(
            "logs/xvfb.log",
            "logs/xvfb-far.log",
            "logs/xvfb-second.log",
            "logs/irtt-server.log",
            "logs/signalling.log",
            "router-clock.jsonl",
        ),
        *("flows.csv", "probes.csv", "short.csv", "queues.jsonl", "talks.csv", "wire.csv", "packets.csv", "replay.csv"),
        *("cell.json", "run.json", "counters.json", "client.pcapng.zst", "server.pcapng.zst"),
        *("jitter.json.gz", "summary.json", "summary.csv", "table.csv", "cell.html", "compare.html", "index.html"),
    )
)


def _fields(model: type[BaseModel]) -> set[str]:
    shape = model.model_json_schema()
    return {name for part in (shape, *shape.get("$defs", {}).values()) for name in part.get("properties", ())}


#: Words in the names of files, options and fields: who is called so is replaced only where a name stands for itself.
_WORDS = frozenset(
    word.casefold()
    for name in (
        *FILES,
        *(option.name for option in OPTIONS),
        *(_fields(Manifest) | _fields(Scores)),
        *_ROLES,
        *("video_harm", "test", "tests", "pytest", "sim", "sojourn", "node", "console", "lab_file"),
    )
    for word in (name, name.partition(".")[0], *re.split(r"[\W_]+", name))
)


def _names_nobody(host: str) -> bool:
    return host.rpartition(".")[2] in _NOBODY or bool(_PSEUDONYM.fullmatch(host))


class MaskError(RuntimeError):
    """There are more names than there are replacements."""


class Mask:
    """Replaces names, each by the same wherever it stands. Learn from all texts first, then call the rest."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names: set[str] = set()
        self._common: set[str] = set()
        self._numbers: dict[str, dict[Any, int]] = {}
        self._known: re.Pattern[str] | None = None
        self._packed: dict[bytes, bytes] = {}
        self._texts: dict[str, str] = {}
        for name in names:
            self._learn(name)

    def _learn(self, name: str) -> None:
        for one in {name, name.split(".")[0]}:
            if len(one) <= 2 or one.casefold() in _ROLES or re.fullmatch(r"[\d.:]+", one):
                continue
            if one.casefold() in _WORDS:
                self._common.add(one.casefold())
            else:
                self._names.add(one)
        self._known = None
        self._texts.clear()

    def learn(self, text: str) -> None:
        """Take note of the names that `text` tells."""
        for pattern in _TOLD:
            for name in pattern.findall(text):
                self._learn(name)

    def _number(self, kind: str, original: Any) -> int:
        """How many of the kind came before it, from 1 on."""
        numbers = self._numbers.setdefault(kind, {})
        return numbers.setdefault(original, len(numbers) + 1)

    def packed(self, address: bytes) -> bytes:
        """Return what stands for an IPv4 (4 bytes), MAC (6) or IPv6 address (16). Raises MaskError.

        An IPv4 address within an IPv6 one is replaced as alone, a MAC address of a group by one of a group.
        """
        if address not in self._packed:
            self._packed[address] = _KINDS[len(address)](self, address)
        return self._packed[address]

    def _ipv4(self, address: bytes) -> bytes:
        if any(ipaddress.IPv4Address(address) in network for network in _KEPT):
            return address
        number = self._number("ipv4", address)
        if number > _SPARES:
            raise MaskError(f"more than {_SPARES} addresses")
        return (_SPARE + number).to_bytes(4, "big")

    def _ipv6(self, address: bytes) -> bytes:
        if any(ipaddress.IPv6Address(address) in network for network in _KEPT6):
            return address
        if address.startswith(_MAPPED):
            return _MAPPED + self.packed(address[12:])
        return (_SPARE6 + self._number("ipv6", address)).to_bytes(16, "big")

    def _mac(self, address: bytes) -> bytes:
        if address in _KEPT_MACS:
            return address
        group = (address[0] & 1) << 40
        return (_SPARE_MAC + group + self._number("mac", address)).to_bytes(6, "big")

    def text(self, text: str) -> str:
        """Return `text`, one line or many, without any name."""
        if text not in self._texts:
            if len(self._texts) > _REMEMBERED:
                self._texts.clear()
            masked = _SESSIONS.sub(lambda found: f"{found[found.lastindex or 0]}removed", text)
            masked = _FOUND.sub(lambda found: _REPLACE[found.lastgroup or ""](self, found[0]), masked)
            masked = self.names(masked)
            for pattern in _TOLD if self._common else ():
                masked = pattern.sub(self._told, masked)
            self._texts[text] = masked
        return self._texts[text]

    def _told(self, found: re.Match[str]) -> str:
        """A place where a name stands for itself, without one that is a word of ours elsewhere."""
        if found[1].casefold() not in self._common:
            return found[0]
        start = found.start(1) - found.start()
        return f"{found[0][:start]}{self._host(found[1])}{found[0][start + len(found[1]) :]}"

    def names(self, text: str) -> str:
        """Return `text` without the names that were learned, but for words of ours."""
        if self._known is None:
            longest_first = sorted(map(re.escape, self._names), key=len, reverse=True)
            known = (
                rf"(?:(?<![^\W_])|(?<=%[0-9A-Fa-f]{{2}}))(?:{'|'.join(longest_first)})(?![^\W_])"
                if longest_first
                else r"(?!)"
            )
            self._known = re.compile(known, re.IGNORECASE)
        return self._known.sub(lambda found: f"name-{self._number('name', found[0].casefold())}", text)

    def json(self, value: Any) -> Any:
        """Return a JSON value without any name, in keys or values; numbers but secret ones and the order stay."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self.json(part) for part in value]
        if isinstance(value, dict):
            # A list of headers or cookies has the name beside the value.
            named = {"value": str(value["name"])} if "name" in value else {}
            return {
                self.text(key): "removed"
                if _SESSION_KEY.fullmatch(str(named.get(key, key))) and not isinstance(part, bool | None)
                else self._host(part)
                if isinstance(part, str) and part.casefold() in self._common and _NAMED_KEY.fullmatch(key)
                else self.json(part)
                for key, part in value.items()
            }
        return value

    def _url(self, found: str) -> str:
        scheme, rest = found.split("://", 1)
        where = re.split(r"[/?#]", rest, maxsplit=1)[0].rpartition("@")[2]
        host, port = re.fullmatch(r"(\[[^\]]*\]|[^:]*)(.*)", where, re.DOTALL).groups()  # type: ignore[union-attr]
        if not host:  # a file
            return f"{scheme}://{self.text(rest)}"
        known = _names_nobody(host.casefold())
        masked = host if known else self.text(host) if "." in host or ":" in host else self._host(host)
        # What is asked of a stand-in is ours, of a site it is what was watched.
        path = self.text(rest.removeprefix(where)) if masked == host and rest.startswith(where) else "/"
        return f"{scheme}://{masked}{port}{path}"

    def _host(self, name: str) -> str:
        return name if name.casefold() in _ROLES else f"name-{self._number('name', name.casefold())}"

    def _mail(self, found: str) -> str:
        user, host = found.rsplit("@", 1)
        shown = self.text(host) if "." in host else self._host(host)
        return f"{self._host(user)}@{shown}"

    def _site(self, found: str) -> str:
        name = found.rstrip(".").casefold()
        if (end := name.rpartition(".")[2]) in _FILES or _names_nobody(name) or (end in _SOURCES and "_" in name):
            return found
        return f"site-{self._number('site', name)}.example"

    def _path(self, found: str) -> str:
        *_, last = found.split("/")
        return f"/path-{self._number('path', found)}/{last if last.rpartition('.')[2] in _FILES else ''}"

    def _windows(self, found: str) -> str:
        plain = re.sub(r"\\+", "/", found)  # escaped or not
        return f"/path-{self._number('path', plain)}/"

    def _quoted(self, found: str) -> str:
        return quote(self._path(unquote(found)), safe="")

    def _address(self, found: str) -> str:
        try:
            address = ipaddress.ip_address(found)
        except ValueError:  # a time of day
            return found
        masked = self.packed(address.packed)
        inner = masked.startswith(_MAPPED) and ipaddress.IPv4Address(masked[12:])
        return f"::ffff:{inner}" if inner else str(ipaddress.ip_address(masked))

    def _uuid(self, found: str) -> str:
        return f"00000000-0000-0000-0000-{self._number('uuid', found.casefold()):012d}"

    def _key(self, found: str) -> str:
        return f"key-{self._number('key', found)}"

    def _machine(self, found: str) -> str:
        return f"{self._number('machine', found):032x}"

    def _nic(self, found: str) -> str:
        """A network card that udev has named by its address."""
        return found[:3] + self.packed(bytes.fromhex(found[3:])).hex()

    def _station(self, found: str) -> str:
        return self.packed(bytes.fromhex(re.sub("[:.-]", "", found))).hex(":")


_KINDS: dict[int, Callable[[Mask, bytes], bytes]] = {4: Mask._ipv4, 6: Mask._mac, 16: Mask._ipv6}
_REPLACE: dict[str, Callable[[Mask, str], str]] = {
    "url": Mask._url,
    "mail": Mask._mail,
    "key": Mask._key,
    "machine": Mask._machine,
    "uuid": Mask._uuid,
    "nic": Mask._nic,
    "mac": Mask._station,
    "ipv6": Mask._address,
    "site": Mask._site,
    "ipv4": Mask._address,
    "windows": Mask._windows,
    "path": Mask._path,
    "quoted": Mask._quoted,
}


def masked(text: str, mask: Mask) -> str:
    """Return a text without any name: as the JSON that it is, or line by line, of which some may be JSON."""
    whole = _masked_json(text, mask, indent=1)
    if whole is not None:
        return whole
    lines = text.splitlines(keepends=True)
    return "".join(
        line_masked if (line_masked := _masked_json(line, mask)) is not None else mask.text(line) for line in lines
    )


def _masked_json(text: str, mask: Mask, indent: int | None = None) -> str | None:
    """The same of a JSON object or list, as it stands where nothing is to be replaced; None if it is none."""
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    clean = mask.json(value)
    return text if clean == value else json.dumps(clean, indent=indent) + text[len(text.rstrip()) :]
