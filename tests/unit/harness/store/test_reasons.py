# SPDX-License-Identifier: Apache-2.0
"""Reasons of a manifest, and their codes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import ValidationError

from sojourn.hardware.machine.files import CHECKOUT
from sojourn.harness.store.manifest import Manifest, manifest_text, read_manifest
from sojourn.harness.store.reasons import Reason, ReasonCode, joined, of_gates
from sojourn.scoring.gates import gate
from sojourn.scoring.validity import Gate, Validity


def manifest(**fields: Any) -> dict[str, Any]:
    return {"run": "r", "test": "t", "cell": "c", "created": 1.0, "status": "void", **fields}


def test_a_manifest_holds_a_code_next_to_each_text(tmp_path: Path) -> None:
    reasons = [{"code": "lab-jitter", "text": "jitter: 9 ms"}, {"code": "stopped", "text": "stopped by Ctrl-C"}]
    written = manifest_text(Manifest.model_validate(manifest(reasons=reasons)))
    assert json.loads(written)["reasons"] == reasons
    (tmp_path / "manifest.json").write_bytes(written)
    assert joined(read_manifest(tmp_path).reasons) == "jitter: 9 ms; stopped by Ctrl-C"


def test_a_text_of_any_length_leaves_a_readable_manifest(tmp_path: Path) -> None:
    longest = "\n" * 200_000
    failed = Validity.of([gate("lab-jitter", "jitter", False, longest, "at most 2 ms")])
    reasons = [Reason.of("failed", longest), *of_gates(failed)]
    (tmp_path / "manifest.json").write_bytes(manifest_text(Manifest.model_validate(manifest(reasons=reasons))))
    assert read_manifest(tmp_path).reasons == reasons


@pytest.mark.parametrize("code", ["", "Two Words", "under_score", "-bad", "<b>"])
def test_a_code_is_kebab_case(code: str) -> None:
    with pytest.raises(ValidationError, match="code"):
        Manifest.model_validate(manifest(reasons=[{"code": code, "text": "jitter"}]))


def test_failed_gates_give_their_codes() -> None:
    gates = [
        gate("lab-jitter", "jitter", False, "9 ms", "at most 2 ms"),
        gate("probe-marked", "marked", True, "all", "all"),
        Gate(name="without a code", ok=False, measured="1", limit="2", reason="old"),
        Gate(name="x", code="<b> Two Words", ok=False, measured="1", limit="2", reason="odd"),
    ]
    reasons = of_gates(Validity.of(gates))
    assert [reason.code for reason in reasons] == ["lab-jitter", "unknown", "unknown"]
    assert [reason.text for reason in reasons] == Validity.of(gates).reasons


def test_each_code_is_documented_used_and_not_a_gate() -> None:
    page = (CHECKOUT / "docs" / "run-directory.md").read_text()
    section = page.split("## Reasons\n")[1].split("\n## ")[0]
    codes = get_args(ReasonCode)
    assert re.findall(r"^\| `([a-z-]+)` \|", section, re.MULTILINE) == list(codes) == sorted(codes)
    sources = "".join(path.read_text() for path in (CHECKOUT / "harness").rglob("*.py"))
    assert [code for code in codes if sources.count(f'"{code}"') < 2] == []
    gates = (CHECKOUT / "docs" / "measurement.md").read_text()
    assert [code for code in codes if f"`{code}`" in gates] == []
