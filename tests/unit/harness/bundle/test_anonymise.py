# SPDX-License-Identifier: Apache-2.0
"""Secrets planted in every kind of file of a run, and a search for them in all of its anonymised bundle."""

from __future__ import annotations

import gzip
import ipaddress
import json
import os
from pathlib import Path

import pytest
import zstandard

from harness.bundle.archive import check, import_bundle
from harness.bundle.capture import mask_capture, mask_frame
from harness.bundle.export import Wish, export
from harness.bundle.pseudonyms import FILES, Mask
from harness.bundle.pseudonyms import masked as masked_text
from harness.bundle.research_object import CRATE
from harness.store.manifest import MANIFEST, SIGNATURE, read_manifest
from harness.store.runs import RunStore
from scoring.packets import pcapng
from tests.unit.harness.bundle import frames
from tests.unit.harness.bundle.contents import unpacked

# Each stands where a real one would; none may be found again.
WORDS = [
    "jnovak", "karelbox", "tv-portal", "novakovi", "hidden-host", "s3ss10n", "t0k3n", "hunter2", "acme-project",
    "nat64box", "labrouter7", "film-id-42", "tvuser77",
    # A host key's fingerprints and itself, the machine's id, serial numbers, a wireless net, what lets one watch.
    "Zm9vYmFyYmF6cXV4cXV1eGNvcmdlZ3JhdWx0Z2FycGx", "ab:cd:ef:01:23:45:67:89:ab:cd:ef:01:23:45:67:89",
    "AAAAC3NzaC1lZDI1NTE5AAAAIPlantedKeyOfTheLab", "0123456789abcdef0123456789abcdef", "WD-WX11D1234567",
    "PCE-APU2-1337", "NovakoviWiFi", "s1gn4ture", "4uthz", "Novak Jan", "buildbox9",
    # Of Windows, of a switch, of a modem; a lab's own domain.
    "hanka7", "winbox3", "3c22.fb12.3456", "356938035643809", "acme-lan",
    # What files of the user's own are called: a page and its folder, a script.
    "svatba-anny", "soukrome", "tajny-kousek", "moje-heslo",
]  # fmt: skip
ADDRESSES = [frames.CLIENT, frames.SITE, "198.51.100.7", "100.64.3.2"]
ADDRESSES6 = [frames.CLIENT6, frames.SITE6, "fe80::3e97:eff:fe11:2233"]
STATION = "3c:97:0e:11:22:33"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SOJOURN_O2TV_USER", "tvuser77")
    command = ["pytest", "--service=o2tv", "--url=https://www.tv-portal.novakovi.cz/watch/film-id-42?token=t0k3n"]
    command += ["--credentials=/home/jnovak/tv.toml", "--results=/srv/acme-project/results"]
    with RunStore(tmp_path / "results").create("video_harm", "cell", command_line=command) as run:
        _plant(run.path)
        run.add_versions({"kernel": "6.12.43-buildbox9", "guest libc6": "2.41-6", "router": "10.1.2.3-buildbox9"})
        run.void("the login of jnovak@karelbox is refused; tvuser77 is unknown")
        run.void("the login is refused, check tv.toml; the page says: Dear Novak Jan, your plan has ended")
        run.void("the stream is refused, its token has expired or is wrong: HTTP 403 for Novak Jan")
        run.void("not in the meeting after 60 s: the page shows 'Hello Novak Jan'")
        run.void("not in the meeting after 60 s: the button 'Join as Novak Jan' leads nowhere")
        run.void("the player reports: Novak Jan may not see this")
        return run.commit()


def _plant(run: Path) -> None:
    (run / "logs").mkdir()
    told = {"client": frames.CLIENT, "server": "10.42.2.10", "seen": f"[{frames.SITE6}]:443", "mac": STATION}
    (run / "lab.json").write_text(json.dumps({"addresses": told, "peers": {frames.SITE: {"Cookie": "a=s3ss10n"}}}))
    own = {"url": "/home/jnovak/soukrome/svatba-anny.html", "script": "/srv/moje-heslo.js", "clip": None, "phases": []}
    (run / "options.json").write_text(json.dumps(own))
    (run / "origin.jsonl").write_text('{"request": {"uri": "/rok/tajny-kousek.m4s?x=1"}}\n')
    (run / "player.jsonl").write_text(
        json.dumps({"t": 1.5, "event": "error", "detail": "4 https://tv-portal.novakovi.cz/live.m3u8?sid=s3ss10n"})
        + '\n{"t": 2.0, "cut off at 203.0.113.80 of hidden-host.novakovi.cz'
    )
    trips = {"system_info": {"hostname": "karelbox"}, "round_trips": [{"delay": {"rtt": 20000000}}], "ip": "100.64.3.2"}
    (run / "irtt.json.gz").write_bytes(gzip.compress(json.dumps(trips).encode()))
    (run / "notes.log.zst").write_bytes(zstandard.compress(b"KARELBOX and 198.51.100.7, tvuser77\n"))
    (run / "setup.log").write_text(
        "12:34:56 [router] $ tc qdisc add dev lan root fq_codel\n"
        "Linux karelbox 6.12.0-1-amd64 x86_64\n"
        "ssh: connect to host labrouter7 port 22: timed out\n"
        "ssh: Could not resolve hostname nat64box: Name or service not known\n"
        f"inet {frames.CLIENT}/24 inet6 fe80::3e97:eff:fe11:2233/64 ether {STATION} udp4_198.51.100.7\n"
        "open C:\\Users\\hanka7\\x.log and \\\\winbox3\\films; port 3c22.fb12.3456\n"
        "IMEI 356938035643809 at nas.acme-lan.example\n"
        "open /home/jnovak/acme-project/x.json, /srv/acme-project/run\n"
        "_sip._udp.hidden-host.novakovi.cz and ::ffff:198.51.100.7 and 80.113.0.203.hidden-host.cz.\n"
    )
    (run / "doctor.log").write_text(
        "ED25519 key fingerprint is SHA256:Zm9vYmFyYmF6cXV4cXV1eGNvcmdlZ3JhdWx0Z2FycGx.\n"
        "RSA key fingerprint is MD5:ab:cd:ef:01:23:45:67:89:ab:cd:ef:01:23:45:67:89\n"
        "labrouter7 ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIPlantedKeyOfTheLab root@karelbox\n"
        "machine-id 0123456789abcdef0123456789abcdef\n"
        'Serial Number: WD-WX11D1234567\nwlan0 ESSID:"NovakoviWiFi"\nssid=NovakoviWiFi\n'
        "GET /live.m3u8?auth=4uthz&sig=s1gn4ture&bandwidth=5 at buildbox9\n"
        "Linux buildbox9 6.12.43-buildbox9\n"
    )
    (run / "board.json").write_text(json.dumps({"serial": "PCE-APU2-1337", "wifi": {"ssid": "NovakoviWiFi"}, "t": 1}))
    (run / "logs" / "karelbox.log").write_text(
        "GET / HTTP/1.1\r\nHost: tv-portal.novakovi.cz\r\nCookie: sid=s3ss10n; b=2\r\nAuthorization: Basic t0k3n==\r\n"
        '{"level":"info","request":{"remote_ip":"203.0.113.80","headers":{"Set-Cookie":["sid=s3ss10n"]}}}\n'
        "by labrouter7 and nat64box, password=hunter2 mail jan@hidden-host.cz root@karelbox\n"
    )
    (run / "page.html").write_text(
        "<a href='https://jnovak:hunter2@tv-portal.novakovi.cz/film-id-42'>203.0.113.80</a>\n"
        "<script>document.cookie = 'sid=s3ss10n'; host = 'hidden-host.novakovi.cz'</script>\n"
    )
    (run / "logs" / "page-far.html").write_text("<h1>Welcome back, Jan N.</h1>")
    (run / "logs" / "page-far.png").write_bytes(b"\x89PNG")
    (run / "core.bin").write_bytes(b"\xff\xfe\0karelbox s3ss10n")
    (run / "screen.mp4").write_bytes(os.urandom(5000))
    request = b"GET / HTTP/1.1\r\nCookie: sid=s3ss10n\r\nHost: tv-portal.novakovi.cz\r\n\r\n"
    fast_open = bytes([34, 10]) + b"hunter2!" + b"\1\1"
    sent = [
        frames.ipv4(frames.tcp(frames.client_hello(b"tv-portal.novakovi.cz")), 6),
        frames.ipv4(frames.tcp(request), 6),
        frames.ipv4(frames.tcp(request, fast_open), 6),
        frames.ipv4(
            frames.tcp(request), 6, options=bytes([7, 7, 4]) + ipaddress.ip_address(frames.SITE).packed + b"\0"
        ),
        frames.ipv4(frames.udp(frames.dns_query("hidden-host.novakovi.cz")), 17, dst="198.51.100.7"),
        frames.ipv4(b"\x03\x03\0\0\0\0\0\0" + frames.ipv4(frames.udp(b"karelbox"), 17)[14:], 1),
        frames.ipv6(frames.tcp(request), 6),
        frames.ipv6(frames.udp(frames.dns_query("hidden-host.novakovi.cz")), 17),
        frames.MACS + b"\x08\x06" + bytes(8) + frames.MACS[:6] + ipaddress.ip_address(frames.CLIENT).packed + bytes(10),
        frames.MACS + b"\x81\x00\0\x07\x08\0" + request,
        frames.MACS + b"\x88\xcc" + b"karelbox",
        b"karelbox",
    ]
    frames.capture(run / "client.pcapng.zst", sent, 1_700_000_000_000_000_000, 400, b"dumpcap on karelbox by jnovak")
    (run / "server.pcapng").write_bytes(b"no capture, but karelbox")


@pytest.fixture
def clean(run: Path, tmp_path: Path) -> Path:
    return import_bundle(export(run, wish=Wish(anonymise=True)), tmp_path / "clean")


def test_no_secret_is_left_in_any_file(clean: Path) -> None:
    binary = [ipaddress.ip_address(address).packed for address in (*ADDRESSES, *ADDRESSES6)]
    wanted = [*map(str.encode, (*WORDS, *ADDRESSES, *ADDRESSES6, STATION)), *binary, frames.MACS[:6], frames.MACS[6:]]
    for name, content in unpacked(clean).items():
        told = name.encode().lower() + b"\n" + content.lower()
        assert [secret for secret in wanted if secret.lower() in told] == [], name


def test_every_secret_was_there(run: Path) -> None:
    everything = b"\n".join(name.encode() + content for name, content in unpacked(run).items()).lower()
    assert [word for word in WORDS if word.lower().encode() not in everything] == []
    for address in (*ADDRESSES, *ADDRESSES6):
        assert address.encode() in everything or ipaddress.ip_address(address).packed in everything, address


def test_what_names_nobody_stays(clean: Path) -> None:
    files = unpacked(clean)
    assert json.loads(files["lab.json"])["addresses"]["server"] == "10.42.2.10"
    assert b"12:34:56 [router] $ tc qdisc add dev lan root fq_codel\n" in files["setup.log"]
    irtt = json.loads(gzip.decompress((clean / "irtt.json.gz").read_bytes()))
    assert irtt["round_trips"] == [{"delay": {"rtt": 20000000}}]
    assert json.loads(files["player.jsonl"].splitlines()[0])["t"] == 1.5


def test_the_same_is_replaced_by_the_same(clean: Path) -> None:
    files = unpacked(clean)
    lab = json.loads(files["lab.json"])
    site = next(iter(lab["peers"]))
    assert site in files["page.html"].decode() and site.startswith("198.18.")
    assert lab["addresses"]["client"] in files["setup.log"].decode()
    packets = pcapng.read(clean / "client.pcapng.zst").packets
    seen = {str(ipaddress.ip_address(number)) for end in ("src", "dst") for number in packets[end].to_list()}
    assert {site, lab["addresses"]["client"], "2001:db8::1"} <= seen


def test_the_bundle_says_what_was_done(run: Path, clean: Path) -> None:
    manifest = read_manifest(clean)
    assert manifest.bundle and manifest.bundle.anonymised and manifest.run == f"{run.name}-anonymised"
    shown = ["logs/page-far.html", "logs/page-far.png"]  # which may greet somebody by any name
    assert manifest.bundle.left_out == ["core.bin", *shown, "server.pcapng"]
    graph = {thing["@id"]: thing for thing in json.loads((clean / "ro-crate-metadata.json").read_text())["@graph"]}
    assert "Anonymised" in graph["./"]["description"] and graph["#anonymised"]["value"] is True
    assert (clean / "screen.mp4").read_bytes() == (run / "screen.mp4").read_bytes()
    assert check(run).manifest.bundle is None


def test_the_recording_can_be_left_out(run: Path) -> None:
    manifest = check(export(run, wish=Wish(anonymise=True, without_video=True))).manifest
    assert manifest.bundle and "screen.mp4" in manifest.bundle.left_out and "screen.mp4" not in manifest.files


FRAMES = {
    "tcp": frames.ipv4(frames.tcp(b"x" * 30, b"\1\1\x08\x0a" + bytes(range(8))), 6, ecn=3),
    "udp": frames.ipv4(frames.udp(b"y" * 31), 17),
    "tcp6": frames.ipv6(frames.tcp(b"z" * 9), 6),
    "udp6": frames.ipv6(frames.udp(b"z" * 50), 17),
}


@pytest.mark.parametrize("kind", FRAMES)
def test_headers_stay_and_checksums_are_right(kind: str) -> None:
    frame = FRAMES[kind]
    made = bytes(mask_frame(bytearray(frame), Mask(), b"k" * 32))
    assert len(made) == len(frame) and made != frame
    v4 = made[12:14] == b"\x08\x00"
    head, protocol, pair = (34, made[23], made[26:34]) if v4 else (54, made[20], made[22:54])
    ttl = 22 if v4 else 21
    assert made[14:ttl] == frame[14:ttl] and made[ttl] == 64  # lengths, ECN, id, fragments; not how far it has come
    if v4:
        assert frames.internet_checksum(made[14:34]) == 0
    checked = slice(head + 16, head + 18) if protocol == 6 else slice(head + 6, head + 8)
    top = head + (20 if protocol == 6 else 8)
    before, after = (bytearray(f[head:top]) for f in (frame, made))
    for header in (before, after):
        header[checked.start - head : checked.stop - head] = bytes(2)
    assert before == after
    length = len(made) - head
    pseudo = pair + length.to_bytes(4, "big") + protocol.to_bytes(4, "big")
    assert frames.internet_checksum(pseudo + made[head:]) == 0


def test_time_stamps_tell_steps_and_no_time(tmp_path: Path) -> None:
    def stamps(value: int, echo: int, key: bytes) -> tuple[int, int]:
        options = b"\1\1\x08\x0a" + value.to_bytes(4, "big") + echo.to_bytes(4, "big")
        made = mask_frame(bytearray(frames.ipv4(frames.tcp(b"", options), 6)), Mask(), key)
        return int.from_bytes(made[58:62], "big"), int.from_bytes(made[62:66], "big")

    first, second = stamps(1000, 0, b"k" * 32), stamps(2**32 - 5, 1000, b"k" * 32)
    assert first[0] != 1000 and first[1] == 0 and second[1] == first[0]
    assert (first[0] - second[0]) % 2**32 == 1005
    assert stamps(1000, 0, b"l" * 32) != first


@pytest.mark.parametrize("length", range(0, 90))
def test_frames_cut_off_anywhere_keep_their_length(length: int) -> None:
    for frame in FRAMES.values():
        assert len(mask_frame(bytearray(frame[:length]), Mask(), b"k" * 32)) == min(length, len(frame))


def test_a_real_capture_is_scored_alike(tmp_path: Path) -> None:
    source = Path(__file__).parents[2] / "scoring" / "data" / "cubic.pcapng.zst"
    mask_capture(source, tmp_path / "masked.pcapng.zst", Mask(), b"k" * 32)
    before, after = pcapng.read(source), pcapng.read(tmp_path / "masked.pcapng.zst")
    assert (before.dropped, before.other) == (after.dropped, after.other)
    same = [name for name in pcapng.SCHEMA if name not in ("src", "dst", "fingerprint")]
    assert before.packets.select(same).equals(after.packets.select(same))
    for name in ("src", "dst", "fingerprint"):  # other values, the same ones alike
        pairs = set(zip(before.packets[name].to_list(), after.packets[name].to_list(), strict=True))
        assert len(pairs) == before.packets[name].n_unique() == after.packets[name].n_unique()


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("10.42.1.10:443 127.0.0.1 255.255.255.0", "10.42.1.10:443 127.0.0.1 255.255.255.0"),
        ("192.168.1.9:443>8.8.8.8", "198.18.0.1:443>198.18.0.2"),
        ("kernel 6.12.43 at 12:34:56, ff:ff:ff:ff:ff:ff", "kernel 6.12.43 at 12:34:56, ff:ff:ff:ff:ff:ff"),
        ("fq_codel flows 1 2.5mbit 0.85 s, e.g. P.1203", "fq_codel flows 1 2.5mbit 0.85 s, e.g. P.1203"),
        ("client.pcapng.zst tests/test_video_harm.py", "client.pcapng.zst tests/test_video_harm.py"),
        ("https://origin.sojourn.test/watch?v=1", "https://origin.sojourn.test/watch?v=1"),
        ("wss://u:p@meet.lab.cz:8443/room#x end", "wss://site-1.example:8443/ end"),
        ("/usr/bin/tc /srv/me/lab.toml /a", "/usr/bin/tc /path-1/lab.toml /a"),
        ('  [{"a":1}]\n', '  [{"a":1}]\n'),
        ('{"a":"8.8.8.8"}\n', '{\n "a": "198.18.0.1"\n}\n'),
        ("std::vector ::1 2001:db8:5::1.", "std::vector ::1 2001:db8::1."),
        ("dev enx3c18a0123456 3c:18:a0:12:34:56", "dev enx020000000001 02:00:00:00:00:01"),
        ("addr:2a00:1028:8386:1::5 node:2a00::7 x", "addr:2001:db8::1 node:2001:db8::2 x"),
        ("lladdr:3c:18:a0:12:34:56 at:12:34:56", "lladdr:02:00:00:00:00:01 at:12:34:56"),
        ("IP 81.2.69.142.443 > 10.42.1.10.5: tcp", "IP 198.18.0.1.443 > 10.42.1.10.5: tcp"),
        ("[fd42:2::20]:40000>[fd42:1::20]:5201 fd42:3::1", "[fd42:2::20]:40000>[fd42:1::20]:5201 2001:db8::1"),
        ("IP6 2a00::1.443 > ::ffff:81.2.69.142.5:", "IP6 2001:db8::1.443 > ::ffff:198.18.0.1.5:"),
        ("12:34:56.789 1.3.6.1.4.1.311 1:2.5 8001::1", "12:34:56.789 1.3.6.1.4.1.311 1:2.5 2001:db8::1"),
        ("pc/45e7cdb1-b23f-4687-a6f9-990842f841e8/40", "pc/00000000-0000-0000-0000-000000000001/40"),
        ("x=%2Fhome%2Fbob%2Fa.json&y=%2Fusr%2Flib", "x=%2Fpath-1%2Fa.json&y=%2Fusr%2Flib"),
        ("MD5:" + ":".join(["ab"] * 16), "key-1"),
        ("sha256 " + "ab" * 32, "sha256 " + "ab" * 32),
        (r"in C:\Users\Jan Novak\run.json d:\\data\\x end", "in /path-1/ /path-2/ end"),
        (r"\\NOVAK-PC\share\x.json and \\\\NAS\\films a\\nfoo\\tbar", r"/path-1/ and /path-2/ a\\nfoo\\tbar"),
        ("mac 3c22.fb12.3456 and 3c:22:fb:12:34:56", "mac 02:00:00:00:00:01 and 02:00:00:00:00:01"),
        ("IMEI 35-693803-564380-9, imei: 356938035643809", "IMEI removed, imei: removed"),
        (
            "nas.novak.example https://novak.example/a site-3.example",
            "site-1.example https://site-2.example/ site-3.example",
        ),
        ("serial console at 115200, the author: a signal", "serial console at 115200, the author: a signal"),
    ],
)
def test_texts(text: str, masked: str) -> None:
    assert masked_text(text, Mask()) == masked


@pytest.mark.parametrize(
    "key",
    [
        "access_token", "refresh_token", "passwd", "user_password", "api_key", "X-Api-Key", "session_id", "sessionid",
        "x-auth-token", "Cookie", "cookies", "Set-Cookie", "authorization", "proxy-authorization", "secret",
    ],
)  # fmt: skip
def test_secrets_in_json_are_removed_by_their_key(key: str) -> None:
    for secret in ("s3ss10n", ["s3ss10n"], {"a": "s3ss10n"}, 5310, 1):
        assert Mask().json({key: secret, "t": 1}) == {key: "removed", "t": 1}
        header = {"name": key, "value": secret, "t": 1}
        assert Mask().json([header]) == [{"name": key, "value": "removed", "t": 1}]
    assert Mask().json({key: None, "a": {key: False}}) == {key: None, "a": {key: False}}


def test_what_only_sounds_like_a_secret_stays() -> None:
    value = {"name": "solo", "value": 3, "tokens": "5", "key": "a", "session": "b", "id": "c", "secrets_of": "d"}
    assert Mask().json(value) == value


def test_a_name_is_known_behind_a_quoted_slash() -> None:
    mask = Mask()
    mask.learn("x=%2Fhome%2Fbob%2Fa")
    assert mask.names("x=%2Fhome%2Fbob%2Fa and bob") == "x=%2Fhome%2Fname-1%2Fa and name-1"


def test_uploads_of_a_load_are_nobody_at_a_host() -> None:
    text = "prague+cubic@up*2+web web+cubic@up video+call+prague@up cubic*2+prague@up-2 prague@up+cubic@up "
    text += "solo:2,cubic@up:4"
    (mask := Mask()).learn(text)
    assert masked_text(text, mask) == text
    told = "bob+cubic@up ann@up cubic@up.example.org cubic@upper"
    (mask := Mask()).learn(told)
    assert not any(name in masked_text(told, mask) for name in ("bob", "ann", "example.org", "upper"))


def test_a_machine_called_like_a_part_of_the_lab_changes_nothing() -> None:
    mask = Mask(["client", "prague"])
    assert mask.json({"client": "prague", "cc": "cubic"}) == {"client": "prague", "cc": "cubic"}


@pytest.mark.parametrize(
    "name",
    [
        "lab", "bulk", "scores", "timeline", "report", "manifest", "qdisc", "test", "video", "logs", "sim", "seed",
        "router-clock", "Rate", "down",
    ],
)  # fmt: skip
def test_an_account_called_like_a_file_of_a_run_changes_no_file(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", f"/home/{name}")
    monkeypatch.setattr("socket.gethostname", lambda: name)
    with RunStore(tmp_path / "results").create("video_harm", "cell", command_line=["pytest", "--lab=virtual"]) as run:
        (run.path / "logs").mkdir()
        files = [*FILES - {MANIFEST, SIGNATURE, CRATE}, "logs/node-router.log", "bulk.server.log"]
        for file in files:
            if file.endswith((".json", ".jsonl")):
                (run.path / file).write_text(
                    '{"lab": "sim", "seed": 1, "rate_down_bps": 5, "qdisc": "video", "test": 2}'
                )
        told = f"PATH=/usr/bin:/home/{name}/bin:/bin {name}@{name} USER={name} hostname: {name} /home/{name} "
        told += f'{{"user": "{name}"}} %2Fhome%2F{name}%2F /tmp/pytest-of-{name}/x pytest-of-{name}'
        (run.path / "setup.log").write_text(told)
        (run.path / "logs" / "node-router.log").write_text(json.dumps({"user": name, "hostname": name}))
        path = run.commit()
    clean = import_bundle(export(path, wish=Wish(anonymise=True)), tmp_path / "clean")
    before, after = (unpacked(folder) for folder in (path, clean))
    assert after.keys() == before.keys() | {CRATE}
    for file in before.keys() - {MANIFEST, CRATE, "setup.log", "logs/node-router.log"}:
        assert after[file] == before[file], file
    assert read_manifest(clean).command_line == ["pytest", "--lab=virtual"]
    assert json.loads(after["logs/node-router.log"]) == {"user": "name-1", "hostname": "name-1"}
    left = after["setup.log"].decode().replace("pytest-of-", "").replace("hostname:", "").replace("USER=", "")
    assert name.lower() not in left.lower(), left
