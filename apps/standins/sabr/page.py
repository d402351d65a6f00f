# SPDX-License-Identifier: Apache-2.0
"""The page of the SABR stand-in: its client and npm's `googlevideo`, of which esbuild makes one script."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from sojourn.apps.standins import origin
from sojourn.apps.standins.origin import OriginError
from sojourn.hardware.build_tool import ended
from sojourn.hardware.machine import cache
from sojourn.hardware.machine.cache import BuildError

HERE = Path(__file__).parent
_CLIENT, _PAGE = "client.js", "index.html"
_PINNED = ("package.json", "package-lock.json")


def ensure_page() -> Path:
    """Return the folder of the page, made on first use of what npm's lock pins. Raises OriginError."""
    files = [(name, (HERE / name).read_bytes()) for name in (*_PINNED, _CLIENT, _PAGE)]

    def build(folder: Path) -> None:
        work = folder / "work"
        work.mkdir()
        for name in (*_PINNED, _CLIENT):
            shutil.copy(HERE / name, work)
        origin.npm_ci(work)
        _bundle(work, folder / _CLIENT)
        shutil.copy(HERE / _PAGE, folder)
        for package in ("googlevideo", "@bufbuild/protobuf"):
            licences = sorted((work / "node_modules" / package).glob("LICENSE*"))
            if licences:
                shutil.copy(licences[0], folder / f"{package.rpartition('/')[2]}.LICENSE")
        shutil.rmtree(work)
        cache.normalise_mtimes(folder)

    return cache.build_once(cache.root() / "web" / f"sabr-{cache.digest(files)[:16]}", build)


def _bundle(work: Path, script: Path) -> None:
    program = next((work / "node_modules/@esbuild").glob("*/bin/esbuild"), None)
    if program is None:
        raise OriginError("npm has no esbuild for this machine, which bundles the client", code="unsupported")
    command = [str(program), str(work / _CLIENT), "--bundle", "--minify", "--format=iife"]
    try:
        done = ended([*command, "--legal-comments=inline", f"--outfile={script}"])
    except BuildError as error:
        raise OriginError(f"esbuild could not bundle the client: {error}", code=error.code) from error
    if done.returncode:
        said = done.stderr.strip() or f"exit code {done.returncode}"
        raise OriginError(f"esbuild could not bundle the client: {said.splitlines()[0]}")


def client_version() -> str:
    """Return the pinned version of googlevideo."""
    lock = json.loads((HERE / "package-lock.json").read_text())
    return str(lock["packages"]["node_modules/googlevideo"]["version"])
