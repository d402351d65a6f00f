# SPDX-License-Identifier: Apache-2.0
"""Two hosts of real network namespaces, made without root: sender 10.9.0.1 and receiver 10.9.0.2."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from sojourn.hardware.machine.place import LOCAL, CommandError, Place


@dataclass(frozen=True)
class Pair:
    """Two places and their addresses."""

    sender: Place
    receiver: Place
    sender_address: str = "10.9.0.1"
    receiver_address: str = "10.9.0.2"


@contextmanager
def namespace(name: str, *prefix: str, unshare: str) -> Iterator[tuple[Place, str]]:
    """Hold a new network namespace open; gives the place inside and the holder's pid."""
    holder = subprocess.Popen(
        [*prefix, "unshare", unshare, "sh", "-c", "echo up; exec cat"],  # until we end
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert holder.stdout is not None and holder.stdout.readline() == "up\n"
        enter = ("nsenter", "-t", str(holder.pid), "-U", "-n", "--preserve-credentials", "--")
        yield Place(name, enter), str(holder.pid)
    finally:
        holder.kill()
        holder.communicate()


@pytest.fixture(scope="session")
def pair() -> Iterator[Pair]:
    """Give a sender and a receiver joined by a veth pair."""
    for tool in ("unshare", "nsenter", "ip"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    try:
        LOCAL.run(["unshare", "-Urn", "true"])
    except CommandError as refused:
        pytest.skip(f"user namespaces are not allowed here: {refused.stderr.strip()}")
    with (
        namespace("sender", unshare="-Urn") as (sender, _),
        namespace("receiver", *sender.prefix, unshare="-n") as (receiver, pid),
    ):
        sender.run(["ip", "link", "add", "e0", "type", "veth", "peer", "name", "e1", "netns", pid])
        for place, dev, address in ((sender, "e0", "10.9.0.1/24"), (receiver, "e1", "10.9.0.2/24")):
            place.run(["ip", "address", "add", address, "dev", dev])
            for link in (dev, "lo"):
                place.run(["ip", "link", "set", link, "up"])
        yield Pair(sender, receiver)
