# SPDX-License-Identifier: Apache-2.0
"""Records a service's page on a machine with internet, as a HAR that its owner can send to others."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from sojourn.apps.browsers.browser import flags
from sojourn.apps.browsers.playwright_driver import PlaywrightBrowser
from sojourn.apps.iptv import is_address
from sojourn.apps.own_page import wait_playing
from sojourn.apps.page_service import states
from sojourn.apps.standins.har import LARGEST
from sojourn.apps.standins.profile.manifests import is_manifest
from sojourn.apps.standins.profile.recorded import ServiceProfileError
from sojourn.hardware.machine.display import SIZE, Display
from sojourn.hardware.machine.files import replace_file
from sojourn.hardware.machine.place import LOCAL
from sojourn.hardware.machine.process import ProcessError
from sojourn.hardware.machine.scratch import scratch_folder

_POSITION = "() => ({ s: Math.max(0, ...[...document.querySelectorAll('video')].map((video) => video.currentTime)) })"
_HEADERS = ("content-type", "content-length", "content-range", "range")
#: The value of a parameter in an address: short numbers and words stay, as they name renditions and segments.
_PARAMETER = re.compile(r"([?&;][\w.~-]{1,100}=)([^&;#\s\"'<>]+)")
_PLAIN = re.compile(r"(?!\d+(\.\d+){3}$)(?!(?=.*\d)(?=.*[a-z])\w{8,}$)[\w./%-]{1,12}", re.IGNORECASE)
_USER = re.compile(r"(?<=://)[^/?#\s\"'<>@]*@")


class RecordingBrowser(PlaywrightBrowser):
    """A browser that writes what its pages request to a file (`har`) when it is closed."""

    def __init__(self, har: Path, display: str, arguments: list[str]) -> None:
        self.further = {"record_har_path": har, "record_har_content": "attach"}
        super().__init__(LOCAL, display, arguments)


def record(url: str, har: Path, seconds: float, *, trusted: Mapping[str, Any] | None = None) -> Path:
    """Play the page at `url` for `seconds`, and write what it requested to `har`, without what identifies the viewer.

    `trusted`: names and keys of a lab's servers, as `flags` takes them. Raises CodedError.
    """
    if not is_address(url):
        raise ServiceProfileError(f"--live={url}: is not an http or https address", code="invalid-value")
    RecordingBrowser.check(stranger=trusted is None)
    folder = scratch_folder("-recording")
    try:
        screen = Display.start(LOCAL, folder / "xvfb.log", SIZE)
    except ProcessError as error:
        raise ServiceProfileError(f"--live: {error}", code="missing-program") from error
    try:
        width, height = SIZE
        archive = folder / "recording.zip"
        browser = RecordingBrowser(archive, screen.name, flags(width=width, height=height, **(trusted or {})))
        try:
            browser.open(url)
            wait_playing(browser, "")
            positions = [state["s"] for state in states(browser, _POSITION, seconds)]
        finally:
            browser.close()
        if len(set(positions)) < 2:
            raise ServiceProfileError(f"--live={url}: the film did not advance", code="no-picture")
        replace_file(har, json.dumps(_cleaned(archive), indent=1).encode())
    except OSError as wrong:
        raise ServiceProfileError(f"{har}: {wrong.strerror}", code="not-writable") from wrong
    finally:
        screen.stop()
        shutil.rmtree(folder, ignore_errors=True)
    return har


def _cleaned(archive: Path) -> dict[str, Any]:
    """Return the HAR in Playwright's archive without cookies, bodies of media, and what identifies its viewer."""
    with zipfile.ZipFile(archive) as files:
        log = json.loads(files.read("har.har"))["log"]
        names = set(files.namelist())

        def content(entry: Mapping[str, Any]) -> str | None:
            kept = entry["response"]["content"]
            name = kept.get("_file", "")
            path = urlsplit(entry["request"]["url"]).path
            manifest = is_manifest(kept.get("mimeType", ""), path)
            if not manifest or name not in names or files.getinfo(name).file_size > LARGEST:
                return None
            return files.read(name).decode(errors="replace")

        entries = [cleaned_entry(entry, content(entry)) for entry in log["entries"]]
    return {"log": {"version": log["version"], "creator": log.get("creator", {}), "entries": entries}}


def cleaned_entry(entry: Mapping[str, Any], manifest: str | None) -> dict[str, Any]:
    """Return an entry of a HAR with what a profile is made from alone; `manifest` is its content, if it is one."""
    request, response = entry["request"], entry["response"]
    content = {name: response["content"].get(name) for name in ("size", "mimeType")}
    if manifest is not None:
        content["text"] = without_tokens(manifest)
    return {
        "startedDateTime": entry["startedDateTime"],
        "time": entry["time"],
        "request": {
            "method": request["method"], "url": without_tokens(request["url"]),
            "httpVersion": request.get("httpVersion", ""), "headers": _kept(request["headers"]),
            "headersSize": request.get("headersSize", -1), "bodySize": request.get("bodySize", -1),
        },
        "response": {
            "status": response["status"], "headers": _kept(response["headers"]),
            "bodySize": response.get("bodySize", -1), "content": content,
        },
        "timings": entry["timings"],
    }  # fmt: skip


def _kept(headers: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    return [
        {"name": header["name"], "value": header["value"]} for header in headers if header["name"].lower() in _HEADERS
    ]


def without_tokens(text: str) -> str:
    """Return a text whose addresses have digests for the values of parameters that are not short words or numbers.

    They have no user and no password.

    Equal values have equal digests, so that a manifest's addresses remain those that were requested.
    """

    def shortened(match: re.Match[str]) -> str:
        name, value = match.groups()
        return name + (value if _PLAIN.fullmatch(value) else f"x{hashlib.sha256(value.encode()).hexdigest()[:8]}")

    return _PARAMETER.sub(shortened, _USER.sub("", text))
