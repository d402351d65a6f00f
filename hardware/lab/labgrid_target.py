# SPDX-License-Identifier: Apache-2.0
"""A target of labgrid, an optional dependency (`pip install sojourn[labgrid]`): its power and its console.

A coordinator's place is also given in the environment file: a target with the resource RemotePlace.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from sojourn.hardware.lab.lab_file import Labgrid

ONE_AT_A_TIME = threading.Lock()
"""labgrid records its steps in one stack for all threads."""


class LabgridError(RuntimeError):
    """labgrid is not installed, or has no such target or driver; one line with the reason."""


class LabgridTarget:
    """A target of an environment file. Raises `LabgridError`."""

    def __init__(self, settings: Labgrid) -> None:
        self._where = f"labgrid {settings.environment}: {settings.target}"
        try:
            from labgrid import Environment  # type: ignore[import-not-found, import-untyped, unused-ignore]
        except ImportError as missing:
            raise LabgridError(f"{self._where}: pip install 'sojourn[labgrid]': {missing}") from missing
        try:
            self._environment = Environment(str(settings.environment))
            self._target = self._environment.get_target(settings.target)
        except Exception as failed:  # the file's drivers and resources may raise anything
            raise LabgridError(f"{self._where}: {failed}") from failed
        if self._target is None:
            known = ", ".join(self._environment.config.get_targets())
            raise LabgridError(f"{self._where}: no such target; known: {known}")

    def switch(self, action: str) -> str:
        """Do `on`, `off` or `cycle`; `get` returns the state if the driver can read it."""
        driver = self.driver("PowerProtocol")
        does = getattr(driver, action, lambda: None)  # some switches cannot report their state
        try:
            answer = does()
        except Exception as failed:
            raise LabgridError(f"{self._where}: {action}: {failed}") from failed
        return type(driver).__name__ if answer is None else "on" if answer else "off"

    def close(self) -> None:
        """Release all of its drivers."""
        self._target.cleanup()

    def driver(self, protocol: str) -> Any:
        """Return the target's driver of a labgrid protocol, activated. Raises `LabgridError`."""
        try:
            return self._target.get_driver(protocol)
        except Exception as failed:
            raise LabgridError(f"{self._where}: {protocol}: {failed}") from failed

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
