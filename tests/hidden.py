# SPDX-License-Identifier: Apache-2.0
"""A machine on which programs are not installed, for tests that must hold where they are."""

from __future__ import annotations

import os
from pathlib import Path

REAL_TIME = ("chromium", "chromedriver", "Xvfb", "obs", "caddy", "iperf3", "irtt", "tcpdump", "dumpcap", "tshark",
             "ping", "pasta")  # fmt: skip
"""What `make harm` in simulated time does not install, of what an ordinary user's PATH has."""


def path_without(folder: Path, *hidden: str) -> str:
    """Return a PATH of one new folder with links to every program of ours but the `hidden` ones."""
    folder.mkdir()
    for place in map(Path, os.environ["PATH"].split(os.pathsep)):
        for program in place.iterdir() if place.is_dir() else ():
            if program.name not in hidden and not (folder / program.name).is_symlink():
                (folder / program.name).symlink_to(program)
    return str(folder)
