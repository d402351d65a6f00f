# SPDX-License-Identifier: Apache-2.0
"""The table of docs/options.md says what the declarations say; `pytest --update-golden` writes it again."""

from __future__ import annotations

import re

import pytest

from sojourn.apps import SERVICES
from sojourn.apps.base import Mode
from sojourn.apps.options import Option
from sojourn.hardware.machine.files import CHECKOUT
from sojourn.harness.options.model import GROUPS, OPTIONS
from sojourn.harness.options.sources import IN_SCENARIOS

DOC = CHECKOUT / "docs" / "options.md"
MODES: dict[Mode, str] = {"stand-in": "stand-in", "own": "own folder", "stream": "address", "live": "live"}
BEGIN, END = "<!-- begin: tests/unit/harness/options/test_docs.py -->\n", "<!-- end -->"


def services(option: Option) -> str:
    """Which services use an option, and for which media; all where none declares it."""
    by_modes: dict[str, list[str]] = {}
    for name, service in SERVICES.items():
        if modes := service.takes.get(option.name):
            by_modes.setdefault(", ".join(MODES[mode] for mode in modes), []).append(name)
    return "; ".join(f"{', '.join(names)} ({modes})" for modes, names in by_modes.items()) or "all"


def table() -> str:
    lines = []
    for group, title in GROUPS.items():
        lines += [
            f"**{title[0].upper()}{title[1:]}**",
            "",
            "| option | default | services | set in |",
            "|---|---|---|---|",
        ]
        for option in OPTIONS:
            if option.group == group:
                places = [
                    *(["scenario"] if option.name in IN_SCENARIOS else []),
                    *(["`sojourn.toml`"] * (option.subject != "who")),
                ]
                default = f"`{option.default}`" if option.default else ""
                lines.append(f"| `--{option.name}` | {default} | {services(option)} | {', '.join(places)} |")
        lines.append("")
    return "\n".join(lines)


def test_the_documented_options_are_those_that_there_are(request: pytest.FixtureRequest) -> None:
    text = DOC.read_text()
    before, _, rest = text.partition(BEGIN)
    written, _, after = rest.partition(END)
    if request.config.getoption("--update-golden"):
        DOC.write_text(before + BEGIN + table() + END + after)
    else:
        assert written == table(), f"other options than in {DOC}; `pytest --update-golden` writes these"


def test_no_page_names_an_option_that_is_none() -> None:
    """Of the page of options; other pages have other programs' options too."""
    known = {option.name for option in OPTIONS} | {"help"}
    assert set(re.findall(r"--([a-z][a-z0-9-]+)", re.sub(r"<!--.*?-->", "", DOC.read_text()))) <= known
