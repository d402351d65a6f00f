# SPDX-License-Identifier: Apache-2.0
"""The virtual lab's way out: a site of this host, outside of the lab, is watched through the bottleneck.

There is no internet where tests run: pasta takes a connection to this host's own address as one to any other.
"""

from __future__ import annotations

import os
import socket
import socketserver
import subprocess
import sys
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import polars as pl
import psutil
import pytest

from sojourn.apps.base import Stage
from sojourn.apps.jitsi import Jitsi
from sojourn.bottleneck.spec import Bottleneck
from sojourn.hardware.images.guest import ensure_guest
from sojourn.hardware.kernel_build.build import ensure_kernel
from sojourn.hardware.machine import cache
from sojourn.hardware.machine.display import Display
from sojourn.hardware.machine.files import CHECKOUT
from sojourn.hardware.machine.place import CommandError
from sojourn.hardware.machine.process import Process, ProcessError
from sojourn.hardware.machine.requirements import ToolError
from sojourn.harness.lab import uplink
from sojourn.harness.lab.contract import Lab
from sojourn.harness.lab.virtual import VirtualLab
from sojourn.harness.soak import leaks
from sojourn.harness.store.loaded import load_run
from sojourn.harness.store.runs import RunStore
from sojourn.scoring.packets import pcapng, sojourn
from sojourn.traffic.ports import RELAY
from tests.lab.main_job import main_job, own_film
from tests.lab.posture_inside import listening
from tests.lab.real_time.test_virtual import host_state
from tests.processes import outliving
from tests.programs.apps.jitsi_room import jitsi_room
from tests.refusals import refusal

pytestmark = pytest.mark.lab

OURSELVES, ANOTHER = "as we are", "as a plain user"
_PLAIN = 65534  # nobody
#: A page that plays, and whose film is the largest of it.
_PAGE = """<!doctype html><body style="margin:0;background:#246">
<video src="film.mp4" muted width=640 height=360 preload=auto></video>"""
#: Becomes a plain user, for whom the checkout, the environment and the tun device are where he may see them.
_AS_PLAIN = """
mount --bind "$1" "$3/checkout" && mount --bind "$2" "$3/venv" && mount -t tmpfs -o mode=755 tmpfs /mnt &&
    mknod -m 666 /mnt/tun c 10 200 && mount --bind /mnt/tun /dev/net/tun && cd "$3/checkout" && user=$4 && shift 4 &&
    exec setpriv --reuid="$user" --regid="$user" --clear-groups -- "$@"
"""


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def here() -> str:
    """An address of this host, as somebody outside of it would take."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asks:
        try:
            asks.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("this host has no way out: no default route")
        return str(asks.getsockname()[0])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, here: str) -> Iterator[str]:
    """A page with a film, served by this host outside of any lab."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "index.html").write_text(_PAGE)
    own_film(folder / "film.mp4")
    with ThreadingHTTPServer((here, 0), partial(_Quiet, directory=folder)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://{here}:{server.server_port}/index.html"
        server.shutdown()


@pytest.fixture(scope="module")
def virtual(tmp_path_factory: pytest.TempPathFactory, here: str) -> Iterator[tuple[VirtualLab, Lab]]:
    made = VirtualLab(ensure_kernel(), ensure_guest(), tmp_path_factory.mktemp("lab"), one_core=True, uplink="cubic")
    with made as lab:
        yield made, lab


@dataclass(frozen=True)
class User:
    """Who runs the main job, and where he keeps what it needs."""

    results: Path
    temporary: Path
    before: tuple[str, ...] = ()
    python: str = sys.executable
    environment: Mapping[str, str] = field(default_factory=dict)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start the main job in the virtual lab; whether a busy host voids it is nothing to us."""
        short = ["--lab=virtual", "--rate=2mbit", "--timeline=solo:6,cubic:6", "--jitter-gate=50ms", *arguments]
        return subprocess.Popen(
            [*self.before, *main_job(self.results, *short, python=self.python)],
            cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env=self.surroundings,
        )  # fmt: skip

    @property
    def surroundings(self) -> dict[str, str]:
        """What his processes have for an environment."""
        return {**os.environ, "PYTHONPATH": "harness/api", **self.environment}


@pytest.fixture(params=[OURSELVES, ANOTHER])
def user(request: pytest.FixtureRequest, scratch: Path, tmp_path: Path) -> Iterator[User]:
    scratch.chmod(0o755)  # others go through a folder of temporary files
    if request.param == OURSELVES:
        yield User(tmp_path, scratch)
        return
    if os.geteuid() != 0:
        pytest.skip("we are one already")
    own = {name: scratch / name for name in ("checkout", "venv", "cache", "t", "results")}
    for folder in own.values():
        folder.mkdir()
    for part in ("kernel", "guest", "tls", "web", "bulk"):
        if (kept := cache.root() / part).exists():
            (own["cache"] / part).mkdir()
            # Not what another builds now; device nodes as such: what is read from a guest's /dev/full has no end.
            entries = [str(entry) for entry in kept.iterdir() if not entry.name.endswith(".partial")]
            subprocess.run(["cp", "-a", *entries, str(own["cache"] / part)], check=True)
    subprocess.run(["chown", "-R", f"{_PLAIN}:{_PLAIN}", *map(str, own.values())], check=True)
    become = ("unshare", "--mount", "sh", "-c", _AS_PLAIN, "sh", str(CHECKOUT), sys.prefix, str(scratch), str(_PLAIN))
    places = {"HOME": own["t"], "TMPDIR": own["t"], "SOJOURN_CACHE": own["cache"]}
    environment = {name: str(path) for name, path in places.items()}
    yield User(own["results"], own["t"], become, str(own["venv"] / "bin" / "python"), environment)


def address(text: str) -> int:
    return int(IPv4Address(text))


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("user", "watched"),
    [(OURSELVES, ["--service=page"]), (ANOTHER, ["--service=iptv", "--live", "--origin-cc=bbr"])],
    indirect=["user"],
)
def test_what_is_outside_is_watched_through_the_bottleneck(user: User, site: str, watched: list[str]) -> None:
    before = host_state()
    job = user.start(*watched, f"--url={site}")
    said, _ = job.communicate(timeout=600)
    runs = list(RunStore(user.results).runs())
    assert len(runs) == 1, said
    scores = load_run(runs[0]).scores
    assert [phase.dominant_height for phase in scores.phases] == [360, 360], said
    assert all(0.2 < (phase.victim_mbps or 0) < 2 for phase in scores.phases), said
    host, port = site.split("/")[2].split(":")
    outward = (
        (pl.col("src") == address(host)) & (pl.col("sport") == int(port)) & (pl.col("dst") == address("10.42.1.10"))
    )
    captured = {
        side: pcapng.read(runs[0] / f"{side}.pcapng.zst").packets.filter(outward) for side in ("server", "client")
    }
    crossed = sojourn.crossings(captured["server"], captured["client"], 10)["sojourn_ms"].drop_nulls()
    assert len(crossed) > 500 and float(crossed.median() or 0) > 1  # type: ignore[arg-type]
    assert host_state() == before


@pytest.mark.nightly
def test_a_killed_job_leaves_nothing(user: User, site: str) -> None:
    before, mark = host_state(), uuid.uuid4().hex
    marking = replace(user, environment={**user.environment, leaks.MARK: mark})
    job = marking.start("--service=page", f"--url={site}")
    try:
        deadline = time.monotonic() + 300
        while not {"chromium", "irtt"} <= (names := set(running := programs(mark))):  # it is under way
            assert job.poll() is None and time.monotonic() < deadline, job.communicate()[0]
            time.sleep(0.1)
        assert any(name.startswith("pas") for name in names)  # pasta, or its build for this processor
    finally:
        job.kill()
        job.wait()
    assert not outliving(process for processes in running.values() for process in processes)
    assert [process.cmdline() for process in leaks.marked(mark)] == []
    assert host_state() == before
    sweep = [user.python, "-c", "from sojourn.hardware.machine.scratch import sweep; sweep()"]  # as the next run does
    subprocess.run([*user.before, *sweep], cwd=CHECKOUT, env=marking.surroundings, check=True)
    assert [path for path in user.temporary.iterdir() if path.name.startswith("sojourn-")] == []


def programs(mark: str) -> dict[str, list[psutil.Process]]:
    """What runs under `mark`, by its name."""
    named = defaultdict(list)
    for process in leaks.marked(mark):
        with suppress(psutil.NoSuchProcess):
            named[process.name()].append(process)
    return named


#: Tells each peer how it is seen.
class _Mirror(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        self.request.sendall(self.client_address[0].encode())


_ASK = "import socket,sys; print(socket.create_connection((sys.argv[1], int(sys.argv[2])), 5).recv(99).decode())"


@pytest.fixture
def mirror(here: str) -> Iterator[int]:
    """A port of this host, at every address that it has."""
    with socketserver.ThreadingTCPServer(("0.0.0.0", 0), _Mirror) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


def test_client_and_server_reach_what_is_outside_and_it_reaches_nobody(
    virtual: tuple[VirtualLab, Lab], here: str, mirror: int
) -> None:
    made, lab = virtual
    for place in (lab.client, lab.server):
        assert place.run(["python3", "-c", _ASK, here, str(mirror)]).strip() == here  # as this host's own
        # Nobody listens there: told at once, as a reset.
        with pytest.raises(CommandError, match=r"reset|empty"):
            place.run(["python3", "-c", _ASK + " or sys.exit('empty')", here, "9"], timeout=60)
        # This host's loopback, by the address that stands for it elsewhere.
        with pytest.raises(CommandError):
            place.run(["python3", "-c", _ASK, "10.42.3.1", str(mirror)], timeout=60)
        assert place.run(["cat", "/etc/resolv.conf"]) == "nameserver 10.42.3.1\n"
        assert listening(place) == []
    outside = made.ways_out["the uplink's relay"].place
    assert listening(outside) == [f"tcp 10.42.2.254:{RELAY}"]
    assert "10.42.3.1" not in Path("/etc/resolv.conf").read_text()
    assert all(ended() is None for ended in lab.watched.values())


#: Only a page of its own machine gets a camera by http: at each end that is where the site's seems to be.
_SEEMS_HERE = """
import asyncio, sys
async def carry(source, sink):
    while data := await source.read(65536):
        sink.write(data)
        await sink.drain()
    sink.close()
async def forward(reader, writer):
    far_reader, far_writer = await asyncio.open_connection(sys.argv[1], int(sys.argv[2]))
    await asyncio.gather(carry(reader, far_writer), carry(far_reader, writer))
async def main():
    server = await asyncio.start_server(forward, "127.0.0.1", int(sys.argv[2]))
    print("listening", flush=True)
    await server.serve_forever()
asyncio.run(main())
"""


@pytest.mark.nightly
def test_two_browsers_of_the_lab_meet_at_a_site_outside(
    virtual: tuple[VirtualLab, Lab], here: str, tmp_path: Path
) -> None:
    _, lab = virtual
    lab.router.apply(Bottleneck.symmetric(10_000_000, "pfifo", 20_000))
    with ExitStack() as stack:
        url = stack.enter_context(jitsi_room(here))
        port = url.split("/")[2].split(":")[1]
        for place in (lab.client, lab.server):
            command, log = ["python3", "-c", _SEEMS_HERE, here, port], tmp_path / f"{place.name}.log"
            seems = Process.start(place, command, stdout=log, ready="listening", ready_in="stdout")
            stack.callback(seems.stop)
        display = Display.start(lab.client, tmp_path / "xvfb.log")
        stack.callback(display.stop)
        call = Jitsi(url.replace(here, "127.0.0.1"), recorder=None)
        stack.callback(call.stop)
        stage = Stage(lab.client, lab.server, lab.addresses.server, tmp_path, display.name, all_cores=lab.all_cores)
        call.start(stage)
        seen = [end.frames for end in call._ends]
        deadline = time.monotonic() + 60
        while any(end.frames < before + 30 for end, before in zip(call._ends, seen, strict=True)):
            assert call.failure is None and time.monotonic() < deadline
            time.sleep(0.1)


def test_an_uplink_that_ends_is_told(tmp_path: Path, here: str) -> None:
    made = VirtualLab(ensure_kernel(), ensure_guest(), tmp_path, one_core=True, uplink="cubic")
    with made as lab:
        made.ways_out["the uplink (pasta)"].stop()
        assert lab.watched["the uplink (pasta)"]() is not None
        assert lab.watched["the uplink's relay"]() is None


def test_a_congestion_control_that_is_not_there_is_told(tmp_path: Path, here: str) -> None:
    with (
        pytest.raises(ProcessError, match=r"no relay by nonsuch at 10\.42\.2\.254:\d+: "),
        VirtualLab(ensure_kernel(), ensure_guest(), tmp_path, one_core=True, uplink="nonsuch"),
    ):
        pass


def test_a_device_that_cannot_be_opened_is_named_with_its_fix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uplink, "_TUN", tun := tmp_path / "tun")
    with refusal(ToolError, "not-writable", "--lab=virtual: ", f" {tun}", "modprobe tun"):
        uplink.check()
