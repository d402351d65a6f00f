# SPDX-License-Identifier: Apache-2.0
"""Pages from the templates: every page is self-contained."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from sojourn.hardware.machine.files import replace_file
from sojourn.harness.report import palette
from sojourn.harness.report.svg import sample


@cache
def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=select_autoescape(["html", "j2"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals |= {"palette": Markup(palette.sheet()), "sample": lambda *of: Markup(sample(*of))}
    return made


def write_page(template: str, view: Any, path: Path) -> Path:
    """Render `template` with its variable `view` to `path`, atomically, and return the path. Raises OSError."""
    replace_file(path, render(template, view).encode())
    return path


def is_page(path: Path) -> bool:
    """Return whether a file is a page of Sojourn, by its title."""
    try:
        return b" \xc2\xb7 Sojourn</title>" in path.read_bytes()
    except OSError:
        return False


def render(template: str, view: Any) -> str:
    """Return `template` rendered with its variable `view`."""
    return _environment().get_template(template).render(view=view)
