# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re
import shutil
import ssl
import subprocess
import threading
from collections.abc import Iterator
from http.server import HTTPServer, SimpleHTTPRequestHandler
from pathlib import Path

import pytest
from cryptography import x509

from sojourn.apps.standins import origin
from sojourn.hardware.machine.ip import as_host
from sojourn.hardware.machine.place import Place
from sojourn.traffic.contender import ACCURATE_ECN, ECN_FILES
from tests.refusals import refusal

# iproute2 6.1, a Chromium connected to Caddy; the second connection is of a host that negotiated ECN.
SS = (
    "0      0            10.9.0.2:443         10.9.0.1:45614\n"
    "\t bbr wscale:10,10 rto:252 rtt:49.409/4.448 ato:40 mss:1448 pmtu:1500 cwnd:150 ssthresh:138\n"
    "0      1448   [::ffff:10.9.0.2]:https [::ffff:10.9.0.1]:45616\n"
    "\t ts sack ecn ecnseen cubic wscale:9,9 rto:208 rtt:4.6/1.1 mss:1448 cwnd:12 ssthresh:10\n"
)


@pytest.fixture
def certificate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> origin.Certificate:
    monkeypatch.setenv("SOJOURN_CACHE", str(tmp_path))
    return origin.ensure_certificate()


def test_ss_tells_each_connections_congestion_control() -> None:
    assert origin.parse_ss(SS) == {"10.9.0.1:45614": "bbr", "[::ffff:10.9.0.1]:45616": "cubic"}
    assert origin.parse_ss("") == {}


def test_certificate_is_for_the_host_and_signed_by_the_authority(certificate: origin.Certificate) -> None:
    leaf, above = x509.load_pem_x509_certificates(certificate.chain.read_bytes())
    leaf.verify_directly_issued_by(above)
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == [origin.HOST]
    # No secret (anybody can compute it), and a machine started by root reads it as another user.
    assert certificate.key.stat().st_mode & 0o777 == 0o644
    assert origin.ensure_certificate() == certificate  # the same one the next time


def test_spki_is_what_openssl_computes(certificate: origin.Certificate) -> None:
    if not shutil.which("openssl"):
        pytest.skip("no openssl to compare with")
    script = 'openssl x509 -in "$0" -pubkey -noout | openssl pkey -pubin -outform der'
    command = ["sh", "-c", f"{script} | openssl dgst -sha256 -binary | base64", str(certificate.chain)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == certificate.spki


def test_players_come_from_whom_the_machine_trusts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As behind a proxy that ends TLS; no npm is configured for it, and this registry has nothing."""
    monkeypatch.setenv("SOJOURN_CACHE", str(tmp_path / "cache"))
    certificate = origin.ensure_certificate("localhost")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.chain, certificate.key)
    (tmp_path / "home").mkdir()
    with HTTPServer(("localhost", 0), SimpleHTTPRequestHandler) as registry:
        registry.socket = context.wrap_socket(registry.socket, server_side=True)
        threading.Thread(target=registry.serve_forever, daemon=True).start()
        environment = {name: it for name, it in origin.ENVIRONMENT.items() if not re.match("NODE_|npm_", name, re.I)}
        where = {"npm_config_registry": f"https://localhost:{registry.server_port}/", "HOME": str(tmp_path / "home")}
        monkeypatch.setattr(origin, "ENVIRONMENT", {**environment, **where, "npm_config_fetch_retries": "0"})
        with refusal(origin.OriginError, "unreachable", "SELF_SIGNED_CERT_IN_CHAIN"):
            origin.ensure_player()
        monkeypatch.setattr(origin, "_AUTHORITIES", certificate.authority)
        with refusal(origin.OriginError, "unreachable", "404"):
            origin.ensure_player()
        registry.shutdown()


@pytest.mark.parametrize("address", ["10.42.2.10", "fd42:2::10"])
@pytest.mark.parametrize(("http", "protocols"), [("h2", ["h1", "h2"]), ("h3", ["h1", "h2", "h3"])])
def test_caddy_accepts_the_configuration(
    http: origin.Http, protocols: list[str], address: str, certificate: origin.Certificate, tmp_path: Path
) -> None:
    config = tmp_path / "Caddyfile"
    site = origin.Site(tmp_path, tmp_path)
    config.write_text(origin.caddyfile(address, 443, http, certificate, site, tmp_path, tmp_path / "log"))
    command = ["caddy", "adapt", "--adapter", "caddyfile", "--config", str(config)]
    adapted = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert re.findall(r'"protocols":\[([^]]*)\]', adapted) == [",".join(f'"{name}"' for name in protocols)]
    assert f'"listen":["{as_host(address)}:443"]' in adapted


def test_lock_file_pins_the_players_and_names_no_registry() -> None:
    lock = (origin.HERE / "package-lock.json").read_text()
    assert "resolved" not in lock
    assert re.fullmatch(r"dashjs 5\.\d+\.\d+", origin.player_version("dashjs"))
    assert re.fullmatch(r"hls\.js 1\.\d+\.\d+", origin.player_version("hls.js"))


@pytest.fixture
def namespace() -> Iterator[Place]:
    """A network namespace with a default route."""
    holder = subprocess.Popen(
        ["unshare", "-Urn", "sh", "-c", "ip link set lo up && ip route add default dev lo && echo up && cat"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert holder.stdin and holder.stdout and holder.stderr
    with holder:
        if holder.stdout.readline() != b"up\n":
            pytest.skip(f"no user namespaces here: {holder.stderr.read().decode().strip()}")
        enter = ("nsenter", "-t", str(holder.pid), "-U", "-n", "--preserve-credentials", "--")
        yield Place("server", enter)
        holder.stdin.close()


def test_congestion_control_is_set_by_the_route_and_read_back(namespace: Place) -> None:
    assert origin.congestion_control(namespace) is None
    for name in ("reno", "cubic"):
        origin.set_congestion_control(namespace, name)
        assert origin.congestion_control(namespace) == name
    assert namespace.run(["ip", "route", "show", "default"]).count("default") == 1


def test_unknown_congestion_control_is_one_clear_error(namespace: Place) -> None:
    with refusal(origin.OriginError, "unsupported", " nonsuch"):
        origin.set_congestion_control(namespace, "nonsuch")


def test_missing_route_is_one_clear_error(namespace: Place) -> None:
    with refusal(origin.OriginError, "unreachable", "server ", "203.0.113.0/24"):
        origin.set_congestion_control(namespace, "reno", "203.0.113.0/24")


def test_prague_alone_changes_what_both_ends_negotiate(namespace: Place) -> None:
    def negotiated() -> str:
        return namespace.run(["cat", ECN_FILES[0]]).strip()

    def available() -> bool:
        """Whether the kernel takes the mode; it is put back."""
        write = f"echo {ACCURATE_ECN} >{ECN_FILES[0]}; cat {ECN_FILES[0]}; echo {usual} >{ECN_FILES[0]}"
        return namespace.run(["sh", "-c", write], check=False).strip() == str(ACCURATE_ECN)

    usual = negotiated()
    for control in ("bbr", "bbr3", "cubic", "reno"):
        origin.set_ecn_of(control, namespace, namespace)
        assert negotiated() == usual
    if available():
        assert negotiated() == usual
        origin.set_ecn_of("prague", namespace, namespace)
        assert negotiated() == str(ACCURATE_ECN)
    else:
        with refusal(origin.OriginError, "unsupported", "net.ipv4.tcp_ecn", "6.18"):
            origin.set_ecn_of("prague", namespace, namespace)


def test_a_server_that_cannot_be_compiled_is_one_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with refusal(origin.OriginError, "missing-program", "HTTP/3 origin", "cargo"):
        origin.ensure_server()
