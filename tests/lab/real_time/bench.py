# SPDX-License-Identifier: Apache-2.0
"""Virtual nodes that stand where a physical lab's machines would: reached by ssh, restarted, cut off."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sojourn.hardware.images.guest import ensure_guest
from sojourn.hardware.kernel_build.build import ensure_kernel
from sojourn.hardware.machine.files import CHECKOUT
from sojourn.hardware.machine.ip import IpVersion
from sojourn.hardware.machine.place import LOCAL, Place
from sojourn.hardware.machine.process import Process
from sojourn.hardware.node import READY
from sojourn.harness.lab.contract import Lab
from sojourn.harness.lab.virtual import VirtualLab
from tests.lab.canaries import ENVIRONMENT

#: This host's own network namespaces stand for the client and the server.
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can name network namespaces of this host")

#: Where what comes by the lab file comes from, so that it alone can be cut off.
_OUTSIDE = "10.42.0.253"
#: The client's second address, by which it receives the bulk flow.
RECEIVER = "10.42.1.30"
#: The stand-in for a cable: from this host into the lab's network.
_PIPE = (
    "import os,select,socket,sys\n"
    "s=socket.create_connection((sys.argv[1],int(sys.argv[2])),source_address=(sys.argv[3],0))\n"
    "while True:\n"
    "  r=select.select([0,s],[],[])[0]\n"
    "  if 0 in r:\n"
    "    d=os.read(0,65536)\n"
    "    if not d: break\n"
    "    s.sendall(d)\n"
    "  if s in r:\n"
    "    d=s.recv(65536)\n"
    "    if not d: break\n"
    "    os.write(1,d)\n"
)
_BLOCK = f"""table inet cut {{
  chain out {{ type filter hook output priority 0; ip saddr {_OUTSIDE} ip daddr 10.42.0.1 tcp dport 22 drop; }}
}}"""


class Bench:
    """A virtual lab and what reaches its nodes as if they were hardware."""

    def __init__(self, virtual: VirtualLab, lab: Lab, folder: Path) -> None:
        self._virtual, self.lab, self.folder = virtual, lab, folder
        prefix = lab.router.place.prefix
        self.hub = Place("hub", prefix[: prefix.index("ssh")])
        config = Path(prefix[prefix.index("-F") + 1])
        (pipe := folder / "pipe.py").write_text(_PIPE)
        proxy = " ".join([*self.hub.prefix, "python3", str(pipe), "%h", "%p", _OUTSIDE])
        self.hub.run(["ip", "address", "add", f"{_OUTSIDE}/24", "dev", "br-mgmt"])
        lines = [line for line in config.read_text().splitlines() if "Control" not in line]
        self.config = folder / "ssh_config"
        self.config.write_text("\n".join([lines[0], f"  ProxyCommand {proxy}", *lines[1:]]) + "\n")

    def lab_file(
        self, router: str = "", client: str = "", server: str = 'ssh = "sender"', server_address: str = ""
    ) -> Path:
        """Write a lab file; the texts are further lines of these tables."""
        file, ends = self.folder / "lab.toml", self.lab.addresses
        file.write_text(
            f'ssh_config = "{self.config}"\n'
            f'[router]\nssh = "router"\nlan = "lan"\nwan = "wan"\n{router}\n'
            f'[client]\naddress = "{ends.client}"\n{client}\n'
            f'[receiver]\nssh = "receiver"\naddress = "{ends.receiver}"\n'
            f'[server]\naddress = "{server_address or ends.sender}"\n{server}\n'
            f'[sender]\nssh = "sender"\naddress = "{ends.sender}"\n'
        )
        return file

    @contextmanager
    def both_ends_here(self, router: str = "") -> Iterator[Path]:
        """A lab file whose client and server are namespaces of this host, as `ip netns` has them; needs root."""
        with self._named_ends() as (client, server):
            yield self.lab_file(router, client, server, server_address=self.lab.addresses.server)

    @contextmanager
    def as_a_box(self, server: str = "", server_address: str = "10.42.2.10") -> Iterator[Path]:
        """A lab file in which the router is a box between two namespaces of this host, or one and another `server`."""
        self.lab.client.run(["ip", "address", "add", f"{RECEIVER}/24", "dev", "eth0"])
        try:
            with self._named_ends() as (client, here):
                file, far = self.folder / "box.toml", f'address = "{server_address}"\n{server or here}\n'
                file.write_text(
                    f'ssh_config = "{self.config}"\n[box]\nname = "vendor CPE"\n'
                    f'[client]\naddress = "10.42.1.10"\ninterface = "eth0"\n{client}\n'
                    f'[receiver]\naddress = "{RECEIVER}"\n{client}\n'
                    f'[server]\ninterface = "eth0"\n{far}[sender]\n{far}'
                )
                yield file
        finally:
            self.lab.client.run(["ip", "address", "delete", f"{RECEIVER}/24", "dev", "eth0"])

    @contextmanager
    def _named_ends(self) -> Iterator[tuple[str, ...]]:
        """The lines that name client and server as namespaces of this host."""
        names = []
        try:
            for place in (self.lab.client, self.lab.server):
                pid = place.prefix[place.prefix.index("--target") + 1]
                LOCAL.run(["ip", "netns", "attach", f"sojourn-{place.name}-{pid}", pid])
                names.append(f"sojourn-{place.name}-{pid}")
            yield tuple(f'netns = "{name}"' for name in names)
        finally:
            for name in names:
                LOCAL.run(["ip", "netns", "delete", name])

    def cut(self, master_of: int | None = None) -> None:
        """Let nothing through to the router's ssh; kill the connection that process `master_of` shares, too."""
        self.hub.run(["nft", "-f", "-"], input=_BLOCK)
        for folder in Path("/tmp").glob(f"sojourn-{master_of}_*/*-ssh"):
            told = subprocess.run(
                ["ssh", "-F", str(self.config), "-o", f"ControlPath={folder}/%C", "-O", "check", "router"],
                capture_output=True, text=True, check=False,
            )  # fmt: skip
            if found := re.search(r"pid=(\d+)", told.stderr):
                LOCAL.run(["kill", "-KILL", found[1]])

    def join(self) -> None:
        """Undo `cut`."""
        self.hub.run(["nft", "delete", "table", "inet", "cut"])

    def reboot(self) -> None:
        """Take the router's power away and give it back; return when it answers."""
        node = self._virtual.nodes["router"]
        node.stop(sig=9)
        argv, log = list(node.popen.args), self.folder / "rebooted.log"  # type: ignore[arg-type]
        wrap = argv[: -len(node.place.argv(node.command))]
        self._virtual.nodes["router"] = Process.start(
            node.place, node.command, stdout=log, ready=READY, ready_in="stdout", wrap=wrap
        )
        self.lab.router.place.run(["true"])

    def shaped(self) -> bool:
        """Whether the router has anything of a run's left, seen past a cut."""
        qdiscs = json.loads(self.lab.router.place.run(["tc", "-j", "qdisc", "show"]))
        return any(q["kind"] in ("htb", "netem", "ingress") for q in qdiscs)

    def traces(self) -> str:
        """What of a run is left on the router: its folder, and the shell that watches."""
        return self.lab.router.place.run(["sh", "-c", "ls -d /run/sojourn; pgrep -fa [s]ojourn-dead-man; true"])


@contextmanager
def job(file: Path, results: Path, timeline: str, *further: str) -> Iterator[subprocess.Popen[str]]:
    """The main job as a user would start it."""
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", "tests/test_video_harm.py", "-p", "no:cacheprovider", "--service=youtube",
         f"--lab-file={file}", f"--timeline={timeline}", f"--results={results}", *further],
        cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=os.environ | ENVIRONMENT,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@contextmanager
def changed(place: Place, change: str, back: str) -> Iterator[None]:
    """Have a shell at a place change something, and change it back."""
    place.run(["sh", "-c", change])
    try:
        yield
    finally:
        place.run(["sh", "-c", back])


def until(true: Callable[[], bool], seconds: float) -> float:
    """Wait until it is; return how long that took in s."""
    begun = time.monotonic()
    while not true():
        assert time.monotonic() < begun + seconds, f"not within {seconds:g} s"
        time.sleep(0.1)
    return time.monotonic() - begun


@contextmanager
def bench(folder: Path, version: IpVersion = 4) -> Iterator[Bench]:
    """A bench that is up."""
    virtual = VirtualLab(ensure_kernel(), ensure_guest(), folder, one_core=True, version=version)
    with virtual as lab:
        yield Bench(virtual, lab, folder)
