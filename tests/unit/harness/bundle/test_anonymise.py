# SPDX-License-Identifier: Apache-2.0
"""Secrets planted in every kind of file of a run, and a search for them in all of its anonymised bundle."""

from __future__ import annotations

import gzip
import ipaddress
import json
import os
import re
from pathlib import Path

import pytest
import zstandard

from sojourn.harness.bundle import anonymise
from sojourn.harness.bundle.anonymise import AnonymiseError
from sojourn.harness.bundle.archive import check, import_bundle
from sojourn.harness.bundle.capture import mask_capture, mask_frame
from sojourn.harness.bundle.declared import declared
from sojourn.harness.bundle.export import ExportRequest, export
from sojourn.harness.bundle.pseudonyms import Pseudonyms
from sojourn.harness.options.model import Options
from sojourn.harness.options.rules import parse_options
from sojourn.harness.store.manifest import read_manifest
from sojourn.harness.store.reasons import Reason
from sojourn.harness.store.runs import RunStore
from sojourn.scoring.packets import pcapng
from sojourn.scoring.schema import records
from tests.refusals import refusal
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
        texts = [
            "the login of jnovak@karelbox is refused; tvuser77 is unknown",
            "the login was refused; check tv.toml; the page says: Dear Novak Jan, your plan has ended",
            "the stream was refused because its token has expired or is wrong: HTTP 403 for Novak Jan",
            "not in the meeting after 60 s: the page shows 'Hello Novak Jan'",
            "not in the meeting after 60 s: the button 'Join as Novak Jan' has no effect",
            "the player reports: Novak Jan may not see this",
        ]
        run.void(*(Reason.of("failed", text) for text in texts))
        return run.commit()


def _plant(run: Path) -> None:
    (run / "logs").mkdir()
    addresses = {
        "client": frames.CLIENT, "receiver": frames.CLIENT, "server": "10.42.2.10", "karelbox": frames.SITE6,
        "sender": "nat64box",
    }  # fmt: skip
    lab = {
        "name": "karelbox", "rtt_ms": 20.0, "rate_down_bps": 1e7, "qdisc_down": "fq_codel flows 1", "qdisc_up": "pfifo",
        "addresses": addresses, "ports": {"bulk": 5201, "labrouter7": 2}, "interfaces": {"lan": "enx3c970e112233"},
        "verified_at_end": "labrouter7: no qdisc on enx3c970e112233", "mac": STATION,
        "peers": {frames.SITE: {"Cookie": "a=s3ss10n"}},
    }  # fmt: skip
    (run / "lab.json").write_text(json.dumps(lab))
    phases = [{"name": "solo", "contender": None, "start": 1.0, "end": 9.0, "of": "jnovak"}]
    (run / "timeline.json").write_text(json.dumps({"phases": phases, "rates": [], "host": "hidden-host"}))
    ends = f"{frames.CLIENT}:443>198.51.100.7:5201"
    (run / "ss.jsonl").write_text(
        json.dumps({"t": 1.0, "place": "labrouter7", "flow": ends, "cc": "cubic", "x": "t0k3n"})
    )
    flow = {"phase": "Novak Jan", "contender": "acme-project", "sender_port": 5, "iperf3": {"cookie": "s3ss10n"}}
    (run / "bulk.json").write_text(json.dumps({"flows": [flow], "title": "tvuser77"}))
    queue = {
        "kind": "fq_codel",
        "handle": "10:",
        "drops": 3,
        "serial": "PCE-APU2-1337",
        "options": {"alias": "winbox3"},
    }
    (run / "qdisc.jsonl").write_text(json.dumps({"t": 1.0, "dev": "enx3c970e112233", "qdiscs": [queue]}) + "\n")
    (run / "screen.json").write_text(json.dumps({"start": 1.0, "expected": 5, "missing": 0, "recorder": "hanka7"}))
    own = {"url": "/home/jnovak/soukrome/svatba-anny.html", "script": "/srv/moje-heslo.js", "clip": None, "phases": []}
    (run / "options.json").write_text(json.dumps(own))
    (run / "origin.jsonl").write_text('{"request": {"uri": "/rok/tajny-kousek.m4s?x=1"}}\n')
    (run / "player.jsonl").write_text(
        json.dumps(
            {"t": 1.25, "quality": "Novak Jan", "height": 720, "place": [0, 0, 1, 1], "account": 356938035643809}
        )
        + "\n"
        + json.dumps({"t": 1.5, "event": "error", "detail": "4 https://tv-portal.novakovi.cz/live.m3u8?sid=s3ss10n"})
        + '\n{"t": 2.0, "cut off at 203.0.113.80 of hidden-host.novakovi.cz'
    )
    trip = {"lost": "false", "delay": {"rtt": 20000000}, "timestamps": {"client": {"send": {"wall": 1}}, "server": {}}}
    trips = {"system_info": {"hostname": "karelbox"}, "round_trips": [{**trip, "from": "karelbox"}], "ip": "100.64.3.2"}
    (run / "irtt.json.gz").write_bytes(gzip.compress(json.dumps(trips).encode()))
    foreign = {"probe": "foreign", "t": 1.5, "port": 40000, "tcp_ms": 20.5, "http_t": None, "http_ms": None}
    (run / "rpm.jsonl").write_text(json.dumps(foreign | {"error": "karelbox does not answer"}) + "\n")
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
    return import_bundle(export(run, request=ExportRequest(anonymise=True)), tmp_path / "clean")


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
    lab = json.loads(files["lab.json"])
    assert lab["addresses"]["server"] == "10.42.2.10" and lab["qdisc_down"] == "fq_codel flows 1"
    irtt = json.loads(gzip.decompress((clean / "irtt.json.gz").read_bytes()))
    stamps = {"client": {"send": {"wall": 1}}, "server": {}}
    assert irtt == {"round_trips": [{"lost": "false", "delay": {"rtt": 20000000}, "timestamps": stamps}]}
    probe = {"probe": "foreign", "t": 1.5, "port": 40000, "tcp_ms": 20.5, "http_t": None, "http_ms": None}
    assert json.loads(files["rpm.jsonl"]) == probe
    first, second = map(json.loads, files["player.jsonl"].splitlines())
    assert first == {"t": 1.25, "quality": "withheld-1", "height": 720, "place": [0, 0, 1, 1]}
    assert second == {"t": 1.5, "event": "error"}
    (queue,) = json.loads(files["qdisc.jsonl"])["qdiscs"]
    assert queue == {"kind": "fq_codel", "handle": "10:", "drops": 3, "options": {}}


def test_the_same_is_replaced_by_the_same(clean: Path) -> None:
    files = unpacked(clean)
    lab, sample = json.loads(files["lab.json"]), json.loads(files["ss.jsonl"])
    assert lab["interfaces"]["lan"] == json.loads(files["qdisc.jsonl"])["dev"]
    assert sample["flow"].partition(":")[0] == lab["addresses"]["client"]
    packets = pcapng.read(clean / "client.pcapng.zst").packets
    seen = {str(ipaddress.ip_address(number)) for end in ("src", "dst") for number in packets[end].to_list()}
    assert {lab["addresses"]["client"], *sample["flow"].replace(">", ":").split(":")[:3:2]} <= seen


def test_the_bundle_says_what_was_done(run: Path, clean: Path) -> None:
    manifest = read_manifest(clean)
    assert manifest.bundle and manifest.bundle.anonymised
    # Of the run's name, only its time is kept: the names of test and cell may be the user's.
    assert manifest.run == ExportRequest(anonymise=True).name(run.name) != f"{run.name}-anonymised"
    assert re.fullmatch(re.escape(run.name[:16]) + r"-[0-9a-f]{6}-anonymised", manifest.run)
    assert ExportRequest(anonymise=True).name(manifest.run) == manifest.run
    assert manifest.bundle.left_out == ["10 logs and other files", "server.pcapng"]
    assert manifest.versions == {"kernel": "6.12.43", "guest libc6": "2.41-6", "router": "10.1.2.3"}
    assert manifest.status == "void" and [reason.code for reason in manifest.reasons] == ["withheld"]
    graph = {thing["@id"]: thing for thing in json.loads((clean / "ro-crate-metadata.json").read_text())["@graph"]}
    assert "Anonymised" in graph["./"]["description"] and graph["#anonymised"]["value"] is True
    assert (clean / "screen.mp4").read_bytes() == (run / "screen.mp4").read_bytes()
    assert check(run).manifest.bundle is None


def test_the_recording_can_be_left_out(run: Path) -> None:
    manifest = check(export(run, request=ExportRequest(anonymise=True, without_video=True))).manifest
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
    made = bytes(mask_frame(bytearray(frame), Pseudonyms(), b"k" * 32))
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


@pytest.mark.parametrize("kind", FRAMES)
def test_a_frame_with_a_vlan_tag_is_masked_as_without(kind: str) -> None:
    frame, tag = FRAMES[kind], b"\x81\x00\x60\x64"
    untagged = mask_frame(bytearray(frame), Pseudonyms(), b"k" * 32)
    tagged = mask_frame(bytearray(frame[:12] + tag + frame[12:]), Pseudonyms(), b"k" * 32)
    assert tagged == untagged[:12] + tag + untagged[12:]
    twice = mask_frame(bytearray(frame[:12] + 2 * tag + frame[12:]), Pseudonyms(), b"k" * 32)
    assert not any(twice[18:]) and len(twice) == len(frame) + 8  # the scorer reads one tag


def test_time_stamps_tell_steps_and_no_time(tmp_path: Path) -> None:
    def stamps(value: int, echo: int, key: bytes) -> tuple[int, int]:
        options = b"\1\1\x08\x0a" + value.to_bytes(4, "big") + echo.to_bytes(4, "big")
        made = mask_frame(bytearray(frames.ipv4(frames.tcp(b"", options), 6)), Pseudonyms(), key)
        return int.from_bytes(made[58:62], "big"), int.from_bytes(made[62:66], "big")

    first, second = stamps(1000, 0, b"k" * 32), stamps(2**32 - 5, 1000, b"k" * 32)
    assert first[0] != 1000 and first[1] == 0 and second[1] == first[0]
    assert (first[0] - second[0]) % 2**32 == 1005
    assert stamps(1000, 0, b"l" * 32) != first


@pytest.mark.parametrize("length", range(0, 90))
def test_frames_cut_off_anywhere_keep_their_length(length: int) -> None:
    for untagged in FRAMES.values():
        for frame in (untagged, untagged[:12] + b"\x81\0\0\7" + untagged[12:]):
            assert len(mask_frame(bytearray(frame[:length]), Pseudonyms(), b"k" * 32)) == min(length, len(frame))


def test_a_real_capture_is_scored_alike(tmp_path: Path) -> None:
    source = Path(__file__).parents[2] / "scoring" / "data" / "cubic.pcapng.zst"
    mask_capture(source, tmp_path / "masked.pcapng.zst", Pseudonyms(), b"k" * 32)
    before, after = pcapng.read(source), pcapng.read(tmp_path / "masked.pcapng.zst")
    assert (before.dropped, before.other) == (after.dropped, after.other)
    same = [name for name in pcapng.SCHEMA if name not in ("src", "dst", "fingerprint")]
    assert before.packets.select(same).equals(after.packets.select(same))
    for name in ("src", "dst", "fingerprint"):  # other values, the same ones alike
        pairs = set(zip(before.packets[name].to_list(), after.packets[name].to_list(), strict=True))
        assert len(pairs) == before.packets[name].n_unique() == after.packets[name].n_unique()


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("10.42.1.10", "10.42.1.10"),
        ("192.168.1.9", "198.18.0.1"),
        ("2a00:1028:8386:1::5", "2001:db8::1"),
        ("fd42:1::10", "fd42:1::10"),
        ("::ffff:81.2.69.142", "::ffff:198.18.0.1"),
        ("192.168.1.9:443>8.8.8.8:5201", "198.18.0.2:443>198.18.0.1:5201"),
        ("[fd42:2::20]:40000>[fd42:3::1]:5201", "[fd42:2::20]:40000>[2001:db8::1]:5201"),
        ("router 192.168.7.7", "withheld-1"),
        ("fq_codel flows 1", "fq_codel flows 1"),
        ("dualpi2 target 15ms", "dualpi2 target 15ms"),
        ("prague+cubic@up*2", "prague+cubic@up*2"),
        ("cubic-2", "cubic-2"),
        ("1-0-2", "1-0-2"),
        ("hd720", "hd720"),
        ("1280x720", "1280x720"),
        ("10:", "10:"),
        ("ffff:fff1", "ffff:fff1"),
        ("/home/bob/a.json", "withheld-1"),
        ("https://novak.example/a", "withheld-1"),
        ("3c:22:fb:12:34:56", "withheld-1"),
        ("3c22.fb12.3456", "withheld-1"),
        ("356938035643809", "withheld-1"),
        ("bob", "withheld-1"),
        ("bob@up", "withheld-1"),
        ("cubic bob", "withheld-1"),
        ("program_mine*2+cubic@up", "program_mine*2+cubic@up"),
        ("program_mine bob", "withheld-1"),
        ("", ""),
    ],
)
def test_texts(text: str, kept: str) -> None:
    assert Pseudonyms().text(text) == kept


def test_the_same_text_has_one_pseudonym_and_another_has_another() -> None:
    names = Pseudonyms()
    assert [names.text(text) for text in ("bob", "ann", "bob")] == ["withheld-1", "withheld-2", "withheld-1"]


def test_only_declared_fields_are_kept() -> None:
    sample = {"t": 1.0, "cpu_cores_used": 1.5, "stall_ms": 0.1, "user": "bob", "serial": 12, "cpu_idle_cores": "bob"}
    kept = declared([sample], list[records.HostSample], Pseudonyms())
    assert kept == [{"t": 1.0, "cpu_cores_used": 1.5, "stall_ms": 0.1, "cpu_idle_cores": "withheld-1"}]


def test_the_name_of_a_box_stays() -> None:
    lab = {"box": "vendor CPE 1.2", "name": "bob", "rtt_ms": None, "rate_down_bps": None}
    assert declared(lab, records.LabRecord, Pseudonyms()) == {**lab, "name": "withheld-1"}


def test_details_of_events_are_kept_by_their_event() -> None:
    path = {"address": "8.8.8.8", "port": 5, "local": "bob", "user": "bob"}
    lines = [
        {"t": 1.0, "event": "ad", "detail": True},
        {"t": 1.0, "event": "camera", "detail": [[1, 2.0, 3.0]]},
        {"t": 1.0, "event": "call", "detail": {"path": path, "inbound": {"id": "bob"}}},
        {"t": 1.0, "event": "failed", "detail": "bob is not in the meeting"},
    ]
    call = {"path": {"address": "198.18.0.1", "port": 5, "local": "withheld-1"}}
    assert declared(lines, list[records.PlayerLine], Pseudonyms()) == [
        *lines[:2], {"t": 1.0, "event": "call", "detail": call}, {"t": 1.0, "event": "withheld-2"},
    ]  # fmt: skip


def test_a_run_without_a_victim_is_refused(tmp_path: Path) -> None:
    with RunStore(tmp_path).create("s6", "cell", command_line=["sojourn", "matrix", "s6"]) as run:
        (run.path / "flows.csv").write_text("t\n1\n")
        path = run.commit()
    with refusal(AnonymiseError, "no-victim"):
        export(path, request=ExportRequest(anonymise=True))


def test_of_a_users_program_neither_commands_nor_files_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOJOURN_CACHE", str(tmp_path / "cache"))
    (tmp_path / "acme").write_text("secret")
    (tmp_path / "acme").chmod(0o755)
    (tmp_path / "mine.toml").write_text(
        "server = './acme --key=hunter2 {port}'\nclient = './acme karelbox {port}'\nsender = 'server'\necn = 'ect1'\n"
    )
    options = parse_options({"contenders": f"program:{tmp_path}/mine.toml"})
    source, target = tmp_path / "options.json", tmp_path / "anonymous.json"
    source.write_text(json.dumps(options.record()))
    anonymise._options(source, target, Pseudonyms())
    (program,) = json.loads(target.read_text())["programs"]
    assert (program["name"], program["sender"], program["ecn"], program["files"]) == (
        "program_mine", "server", "ect1", {}
    )  # fmt: skip
    assert not [word for word in ("acme", "hunter2", "karelbox") if word in target.read_text()]
    assert Options.model_validate_json(target.read_text()).programs[0].digest != options.programs[0].digest
