# SPDX-License-Identifier: Apache-2.0
"""Sojourn's own origins of video over HTTP/1.1: how one is started; server.py has what they share."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from sojourn.apps.base import Stage
from sojourn.apps.standins.origin import ACCESS_LOG, HOST, ensure_certificate, url_at
from sojourn.hardware.machine.process import Process


def start(
    stage: Stage, package: str, site: Mapping[str, Any], folders: Iterable[Path]
) -> tuple[Process, str, dict[str, Any]]:
    """Start `server.py` of a package of sojourn.apps.standins, which serves `site` and a page in `folders`.

    Return its process, its address, and how the browser trusts it. Writes `package`.log and the access log to the run.
    Raises OriginError, ProcessError.
    """
    certificate = ensure_certificate()
    command = [sys.executable, "-P", "-m", f"sojourn.apps.standins.{package}.server", stage.address, str(stage.port)]
    command += [str(certificate.chain), str(certificate.key), json.dumps(site), str(stage.run / ACCESS_LOG)]
    command += map(str, folders)
    process = Process.start(stage.server, command, stderr=stage.run / f"{package}.log", ready="Running on")
    return process, url_at(stage.port), {"hosts": {HOST: stage.address}, "spki": certificate.spki}


def origin_version() -> dict[str, str]:
    """Return the version of these origins, as in a run's manifest."""
    return {"origin": f"aiohttp {version('aiohttp')}"}
