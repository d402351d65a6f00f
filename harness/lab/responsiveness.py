# SPDX-License-Identifier: Apache-2.0
"""The Responsiveness Test in a lab: the identity of its servers, and the foreign probes of --rpm."""

from __future__ import annotations

import signal
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from sojourn.apps.standins.origin import HOST, ensure_certificate
from sojourn.hardware.machine.files import log_file
from sojourn.harness.lab.contract import Lab, LabFactory, MadeLab
from sojourn.traffic import ports
from sojourn.traffic.rpm_programs import PROBES_FILE, Identity, failure, start_client, start_server


def identity() -> Identity:
    """Return the identity of a lab's own servers, which is the origin's."""
    own = ensure_certificate()
    return Identity(own.chain, own.key, own.authority, HOST)


class WithForeignProbes(MadeLab):
    """A lab of another factory in which foreign probes run from client to server, from its start to its end.

    `folder` receives them; `interval_s` is the time between two, s. Raises ProcessError, and what the factory raises.
    """

    def __init__(self, factory: LabFactory, folder: Path, interval_s: float) -> None:
        super().__init__()
        self._factory, self._folder, self._interval_s = factory, folder, interval_s

    def __enter__(self) -> Lab:
        with ExitStack() as stack:
            lab = stack.enter_context(self._factory)
            at, own = (lab.addresses.server, ports.RPM), identity()
            server = start_server(lab.server, *at, own, log_file(self._folder, "rpm-server"))
            stack.callback(server.stop, signal.SIGTERM)
            file, every = self._folder / PROBES_FILE, f"--interval={self._interval_s:g}"
            probe = start_client("probe", lab.client, *at, own, file, every)
            stack.callback(probe.stop)
            lab.watched |= {"the RPM server": server.last_words, "the RPM probe": partial(failure, probe)}
            self._stack = stack.pop_all()
        return lab
