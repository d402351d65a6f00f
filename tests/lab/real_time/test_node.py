# SPDX-License-Identifier: Apache-2.0
"""Three nodes side by side: how soon a ping crosses the router, what they run, and that they end without a trace."""

from __future__ import annotations

import signal
from contextlib import ExitStack
from pathlib import Path

import pytest

from sojourn.hardware.images.guest import HOST_ALIAS, ensure_guest
from sojourn.hardware.kernel_build.build import ensure_kernel
from sojourn.hardware.kernel_build.self_check import self_check
from sojourn.hardware.machine.cache import BuildError
from sojourn.hardware.machine.namespaces import Namespaces
from sojourn.hardware.machine.place import Place
from sojourn.hardware.machine.process import Process
from sojourn.hardware.node import READY, Interface, node_command
from sojourn.harness.lab.virtual import node_jail
from tests.refusals import refusal

pytestmark = pytest.mark.lab

WIRES = {
    "router": {"lan": "10.42.1.1/24", "wan": "10.42.2.1/24"},
    "sender": {"wan": "10.42.2.20/24"},
    "receiver": {"lan": "10.42.1.20/24"},
}
GATEWAYS = {"sender": "10.42.2.1", "receiver": "10.42.1.1"}


def test_a_node_proves_prague_and_data_without_ect1_fails_the_check() -> None:
    """DCTCP sends ECT(0), as Prague would on a kernel that lacks the edits for ECT(1)."""
    kernel, guest = ensure_kernel(), ensure_guest()
    self_check(kernel, guest)
    with refusal(BuildError, "unsupported", " 0 of ", "ECT(1)"):
        self_check(kernel, guest, "dctcp")


def test_a_ping_crosses_and_ssh_answers(tmp_path: Path) -> None:
    kernel, guest = ensure_kernel(), ensure_guest()
    with Namespaces(["hub"]) as spaces, ExitStack() as stack:
        hub = spaces["hub"]
        lines = [f"link add br-{net} type bridge stp_state 0 mcast_snooping 0" for net in ("lan", "wan")]
        for name, wires in WIRES.items():
            for net in wires:
                port = f"{name[:6]}-{net}"
                lines += [f"link add {port} type veth peer name p-{port}", f"link set p-{port} master br-{net}"]
        hub.run(["ip", "-batch", "-"], input="".join(f"{line}\n" for line in lines))
        ports = [f"{name[:6]}-{net}" for name, wires in WIRES.items() for net in wires]
        for device in ("br-lan", "br-wan", *ports, *(f"p-{port}" for port in ports)):
            hub.run(
                ["ethtool", "-K", device, *["tso", "off", "gso", "off", "gro", "off", "tx", "off", "rx", "off"]],
                check=False,
            )
            hub.run(["ip", "link", "set", device, "up"])
        hub.run(["ip", "address", "add", "10.42.2.254/24", "dev", "br-wan"])

        nodes = {
            name: Process.start(
                hub,
                stack.enter_context(node_jail(kernel.linux, guest.root)).argv(
                    node_command(
                        name=name, forward=name == "router", gateway=GATEWAYS.get(name),
                        interfaces=[Interface(net, f"{name[:6]}-{net}", address) for net, address in wires.items()],
                    ),
                    {"TMPDIR": "memory"},
                ),
                stdout=tmp_path / f"{name}.log",
            )
            for name, wires in WIRES.items()
        }  # fmt: skip
        for node in nodes.values():
            node.await_ready(READY, "stdout", timeout=60)
        ssh = Place(
            "sender",
            (*hub.prefix, "ssh", "-i", str(guest.ssh_key), "-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes",
             "-o", f"UserKnownHostsFile={guest.known_hosts}", "-o", f"HostKeyAlias={HOST_ALIAS}", "root@10.42.2.20"),
            remote=True,
        )  # fmt: skip
        assert "1 received" in ssh.run(["ping", "-c", "1", "-W", "20", "10.42.1.20"])

        assert ssh.run(["uname", "-r"]).strip() == kernel.version
        assert f"iproute2-{guest.versions['iproute2'].split('-')[0]}" in ssh.run(["tc", "-V"])
        ssh.run(["tc", "qdisc", "replace", "dev", "wan", "root", "dualpi2"])
        assert "qdisc dualpi2" in ssh.run(["tc", "qdisc", "show", "dev", "wan"])
        # Segments of 64 KiB must not reach a queue.
        features = ssh.run(["ethtool", "-k", "wan"])
        for feature in ("tcp-segmentation-offload", "generic-segmentation-offload", "generic-receive-offload"):
            assert f"{feature}: off" in features

        ssh.run(["poweroff"])
        assert nodes["sender"].wait(60) == 0
        assert nodes["router"].stop(signal.SIGTERM, grace=60) is not None
        assert not nodes["router"].alive()
    assert nodes["receiver"].wait(60) != 0  # killed with the namespace that it lived in
