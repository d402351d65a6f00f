# SPDX-License-Identifier: Apache-2.0
"""Secrets for the surroundings of a real run, to be looked for in what it leaves and gives away."""

from __future__ import annotations

import getpass
import socket
from collections.abc import Iterator

#: Of an account and a proxy: no run may hold them at all.
KEPT_OUT = {
    "SOJOURN_O2TV_USER": "tvuser77",
    "SOJOURN_O2TV_PASSWORD": "hunter2pass",
    "https_proxy": "http://proxyuser5:pr0xypass@proxy.karel-acme.cz:3128",
    "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMIcanary",
}
#: Who and where: in a run that its maker keeps, in none that is given away without names.
NAMES = {"USER": "jnovakova", "LOGNAME": "jnovakova", "HOSTNAME": "karelbox7"}
#: The folder of the results.
PROJECT = "acme-project9"
ENVIRONMENT = KEPT_OUT | NAMES


def kept_out() -> list[str]:
    """Return what no file of a run may tell."""
    return ["tvuser77", "hunter2pass", "proxyuser5", "pr0xypass", "karel-acme", "wJalrXUtnFEMIcanary"]


def names() -> Iterator[str]:
    """Return what no file of an anonymised run may tell: of this machine too, where that says anything."""
    yield from {*NAMES.values(), PROJECT}
    yield from (name for name in (socket.gethostname(), getpass.getuser()) if len(name) > 5)
