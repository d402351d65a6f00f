# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from sojourn.hardware.machine.toml_file import TomlError, parse_toml, read_toml

WRONG = {
    "nested": (b"a = " + b"[" * 5000 + b"]" * 5000, "not valid TOML: nested too deeply"),
    "number": (b"a = " + b"1" * 10_000, "not valid TOML: Exceeds the limit"),
    "bytes": (b"a = '\xff'", "not valid TOML: 'utf-8' codec"),
    "unfinished": (b"a = ", "not valid TOML: Invalid value"),
    "long": (b"#" * (2 << 20), "larger than 1 MiB"),
}


@pytest.mark.parametrize("name", WRONG)
def test_whatever_is_wrong_is_one_line(name: str, tmp_path: Path) -> None:
    content, why = WRONG[name]
    (tmp_path / "a.toml").write_bytes(content)
    with pytest.raises(TomlError, match=f"^{why}") as wrong:
        read_toml(tmp_path / "a.toml")
    assert "\n" not in str(wrong.value)


def test_what_is_right_is_read() -> None:
    assert parse_toml("[a]\nb = 'é'\n".encode()) == {"a": {"b": "é"}}
