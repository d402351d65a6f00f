# SPDX-License-Identifier: Apache-2.0
"""Pages from the templates: each stands alone, without anything from elsewhere."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

from sojourn.hardware.machine.files import replace_file


@cache
def _environment() -> Environment:
    return Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=select_autoescape(["html", "j2"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def write_page(template: str, view: Any, path: Path) -> Path:
    """Write `template` with what it calls `view` to `path`, in one step, and return the path. Raises OSError."""
    replace_file(path, render(template, view).encode())
    return path


def render(template: str, view: Any) -> str:
    """Return `template` with what it calls `view`."""
    return _environment().get_template(template).render(view=view)
