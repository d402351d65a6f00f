# SPDX-License-Identifier: Apache-2.0
"""A run without what names its user, machine, sites and addresses, and with the same figures; docs/bundles.md.

What cannot be read cannot be cleaned, and is left out; so is what a page showed when it failed, which may greet
somebody by name. A recording of the screen stays as it is.
"""

from __future__ import annotations

import getpass
import gzip
import json
import os
import re
import secrets
import shutil
import socket
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote

import zstandard

from apps.browsers.shown import KEPT
from hardware.machine.place import ACCOUNT
from harness.bundle.capture import mask_capture
from harness.bundle.pseudonyms import FILES, Mask, masked
from harness.report.run_page import REPORT, write_report
from harness.store.loaded import LoadError, load_scores
from harness.store.manifest import Manifest
from scoring.packets.pcapng import CaptureError
from scoring.packets.unpacked import unpacked

_CAPTURE = (".pcapng", ".pcapng.zst")
_VIDEO = (".mp4", ".mkv")
_KEY_BYTES = 32
#: Options that name files of the user's.
_OWN = ("url", "clip", "script", "credentials", "profile")
#: Whose version a name is followed by; four numbers of one would look like an address.
_PACKAGE = ("guest ", "caddy", "chromium", "iperf3", "irtt", "iproute2", "tcpdump", "ffmpeg")
_REVISION = re.compile(r"[\d.]+[-+~][\w.+~-]*")


def anonymise(
    manifest: Manifest, files: Mapping[str, Path], folder: Path
) -> tuple[Manifest, dict[str, Path], list[str]]:
    """Write the `files` (by their paths in the run) into `folder` without names, and the report from them again.

    Returns the manifest without names and hashes, the files by their new paths, and those that were left out.
    Raises RuntimeError with one line.
    """
    known = {name: path for name, path in files.items() if not KEPT.fullmatch(name)}
    texts = {name: text for name, path in known.items() if (text := _text(path)) is not None}
    mask = Mask((*_here(), *_own_files(texts)))
    for text in (manifest.model_dump_json(), *texts.values()):
        mask.learn(text)
    key = secrets.token_bytes(_KEY_BYTES)
    made: dict[str, Path] = {}
    left_out: list[str] = []
    for name, source in files.items():
        new = name if name in FILES else mask.names(name)
        target = folder / new
        target.parent.mkdir(parents=True, exist_ok=True)
        if name in texts:
            _write(target, masked(texts[name], mask))
        elif name.endswith(_CAPTURE):
            try:
                mask_capture(source, target, mask, key)
            except CaptureError:
                target.unlink()
                left_out.append(new)
                continue
        elif source.suffix in _VIDEO:
            shutil.copyfile(source, target)
        else:
            left_out.append(new)
            continue
        made[new] = target
    apart = {"files", "run", "bundle", "git", "required"}
    of_manifest = mask.json(manifest.model_dump(mode="json", exclude=apart))
    required = [name if name in FILES else mask.names(name) for name in manifest.required]
    of_manifest["versions"] |= {
        name: mask.names(text)
        for name, text in manifest.versions.items()
        if name.startswith(_PACKAGE) and _REVISION.fullmatch(text)
    }
    fresh = Manifest.model_validate({**of_manifest, "run": manifest.run, "git": manifest.git, "required": required})
    if REPORT in made:
        with suppress(LoadError):  # another kind of run: what its page said is masked like any text
            write_report(folder, load_scores(folder), fresh)
    return fresh, made, left_out


def _here() -> Iterator[str]:
    """What this machine, its user and their accounts are called."""
    yield from (socket.gethostname(), Path.home().name)
    with suppress(OSError, KeyError):  # a user without a name
        yield getpass.getuser()
    yield from (value for name, value in os.environ.items() if ACCOUNT.fullmatch(name) and value)


def _own_files(texts: Mapping[str, str]) -> Iterator[str]:
    """What the user's own files are called: those that options name, and those of the folder that was served."""
    try:
        asked = json.loads(texts.get("options.json", "{}"))
        paths = [str(asked[name]) for name in _OWN if asked.get(name) and "://" not in str(asked[name])]
    except (ValueError, AttributeError):
        return
    if "url" in asked and asked["url"] in paths:
        served = re.findall(r'"uri": ?"([^"?]*)', texts.get("origin.jsonl", ""))
        paths += [f"/{part}" for uri in dict.fromkeys(served) for part in unquote(uri).split("/")]
    for path in paths:
        yield from {Path(path).name, Path(path).stem}


def _text(path: Path) -> str | None:
    """The text in a file, unpacked; None for a capture, a recording, and what is no text."""
    if path.name.endswith((*_CAPTURE, *_VIDEO)):
        return None
    try:
        return b"".join(unpacked(path)).decode()
    except ValueError:
        return None


def _write(target: Path, text: str) -> None:
    content = text.encode()
    if target.suffix == ".gz":
        content = gzip.compress(content, mtime=0)
    elif target.suffix == ".zst":
        content = zstandard.compress(content)
    target.write_bytes(content)
