# SPDX-License-Identifier: Apache-2.0
"""Errors for the user: one line, and a code for programs and tests."""

from __future__ import annotations

from typing import Literal

Code = Literal[
    "altered", "altered-record", "anonymised", "bad-key", "bad-signature", "closed", "confirm-account",
    "confirm-files", "conflict", "damaged", "disk-full", "duplicate", "exists", "failed", "in-use", "insecure",
    "invalid-run", "invalid-value", "killed", "login-refused", "login-required", "missing", "missing-program",
    "no-answer", "no-cell", "no-effect", "no-memory", "no-picture", "no-stream", "no-victim", "not-a-bundle",
    "not-a-file", "not-a-folder", "not-a-run", "not-admitted", "not-ended", "not-executable", "not-from-file",
    "not-private", "not-signed", "not-started", "not-writable", "other-key", "other-setting", "other-site",
    "other-version", "out-of-range", "outside", "pruned", "real-time", "refused", "script-failed",
    "too-large", "too-old", "too-short", "trailing-data", "truncated", "unexpected-file", "unfinished",
    "unknown-option", "unknown-signer", "unknown-value", "unreachable", "unreadable-file", "unreadable-run",
    "unsupported", "untrusted-file",
]  # fmt: skip
"""Why something is refused, for programs and tests: texts may change, codes stay."""


class CodedError(RuntimeError):
    """An error in one line, with a code that stays when the text changes."""

    def __init__(self, text: str, *, code: Code = "failed") -> None:
        super().__init__(text)
        self.code = code
