# SPDX-License-Identifier: Apache-2.0
"""A HAR of a stand-in's run, from its origin's access log: a recording whose truth is known."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit


def har_of_run(run: Path, manifest: Path | None = None) -> dict[str, Any]:
    """Return the HAR of what the origin of a run has answered, with the text of its manifest, if given."""
    lines = [json.loads(line) for line in (run / "origin.jsonl").read_text().splitlines()]
    entries = [_entry(line, manifest) for line in lines if "request" in line]
    return {"log": {"version": "1.2", "creator": {"name": "tests", "version": "1"}, "entries": entries}}


def _entry(line: dict[str, Any], manifest: Path | None) -> dict[str, Any]:
    request, took_ms = line["request"], line["duration"] * 1000
    uri = request["uri"]
    content: dict[str, Any] = {"size": line["size"], "mimeType": (line["resp_headers"].get("Content-Type") or [""])[0]}
    if manifest and urlsplit(uri).path.endswith(".mpd"):
        content |= {"text": manifest.read_text()}
    return {
        "startedDateTime": datetime.fromtimestamp(line["ts"] - line["duration"], UTC).isoformat(),
        "time": took_ms,
        "request": {
            "method": request["method"], "url": f"https://{request['host']}{uri}", "httpVersion": request["proto"],
            "headers": [{"name": name, "value": value} for name, (value, *_) in request.get("headers", {}).items()],
            "headersSize": -1, "bodySize": 0,
        },
        "response": {
            "status": line["status"], "bodySize": line["size"], "content": content,
            "headers": [{"name": name, "value": value} for name, (value, *_) in line["resp_headers"].items()],
        },
        "timings": {"send": 0, "wait": 0, "receive": took_ms},
    }  # fmt: skip


def segments(run: Path) -> Iterator[tuple[str, int]]:
    """Yield path and size of every segment that the origin of a run has sent, in order."""
    for line in map(json.loads, (run / "origin.jsonl").read_text().splitlines()):
        if "request" in line and (path := urlsplit(line["request"]["uri"]).path).endswith(".m4s"):
            yield path, line["size"]
