# SPDX-License-Identifier: Apache-2.0
"""Where a bulk flow runs: of the kernel's TCP, and of a user's program whose server may be at either end."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from sojourn.hardware.machine.place import Place
from sojourn.harness.lab.contract import Addresses, Lab, Tap
from sojourn.harness.lab.instruments import bulk_flow
from sojourn.traffic import ports
from sojourn.traffic.iperf3 import BulkFlow
from sojourn.traffic.program_flow import ProgramFlow
from sojourn.traffic.user_program import UserProgram


def lab(sender: Literal["client", "server"]) -> Lab:
    client, server, near, far = (Place(name) for name in ("client", "server", "receiver", "sender"))
    program = UserProgram(
        name="program_mine", server="./mine {port}", client="./mine {address} {port}", sender=sender, tcp_ecn=3
    )
    return Lab(
        name="it", client=client, server=server, sender=far, receiver=near, router=None, client_tap=Tap(client, "a"),
        server_tap=Tap(server, "b"), addresses=Addresses("10.0.0.1", "10.0.0.2", "10.0.1.1", "10.0.1.2"),
        programs={program.name: program},
    )  # fmt: skip


@pytest.mark.parametrize("sender", ["client", "server"])
@pytest.mark.parametrize("up", [False, True])
def test_a_program_sends_from_the_end_that_its_definition_names(
    tmp_path: Path, sender: Literal["client", "server"], up: bool
) -> None:
    flow = bulk_flow(lab(sender), "program_mine", tmp_path, 5, name="x", up=up, port=ports.BULK)
    assert isinstance(flow, ProgramFlow) and flow.contender.tcp_ecn == 3
    ends = [("sender", "10.0.1.2"), ("receiver", "10.0.0.2")]
    (source, source_address), (sink, sink_address) = reversed(ends) if up else ends
    assert (flow.sender.name, flow.receiver.name) == (source, sink)
    assert (flow.sender_address, flow.receiver_address) == (source_address, sink_address)
    assert flow._places["server"].name == (source if sender == "server" else sink)
    assert flow._address == (source_address if sender == "server" else sink_address)
    record = flow.record("phase", {})
    assert (record["server_port"], record["serves"], record["up"]) == (ports.PROGRAM + 5, sender == "server", up)
    assert flow.failure and not flow.alive()


def test_flows_of_tcp_are_as_before(tmp_path: Path) -> None:
    flow = bulk_flow(lab("client"), "cubic", tmp_path, 5, name="x", port=ports.BULK + 1)
    assert type(flow) is BulkFlow
    assert (flow.port, flow.sender_port, flow.receiver_address) == (5202, ports.FIRST_SENDER + 5, "10.0.0.2")
