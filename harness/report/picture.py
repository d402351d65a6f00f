# SPDX-License-Identifier: Apache-2.0
"""Drawings of `svg.py` as files: the pages' light colours, and a font that is part of the rasteriser."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import cv2
import numpy as np
import vl_convert

from sojourn.hardware.machine.files import replace_file
from sojourn.harness.report import palette

SCALE = 1.5
"""Pixels of an image per px of its drawing."""
_TEMPLATES = Path(__file__).parent / "templates"
_FONT = '.plot { font-family: "Liberation Sans", Arial, Helvetica, sans-serif }'


class PictureError(RuntimeError):
    """A picture cannot be written; the message names the file and the formats."""


def write_picture(drawing: str, path: Path) -> None:
    """Write an SVG drawing; the suffix of `path` determines the format: svg, pdf, or an image (png, jpg, webp, tif).

    The same drawing gives the same bytes, except in a PDF, which has its date. Raises PictureError, OSError.
    """
    suffix = path.suffix.lower()
    if suffix == ".svg":
        data = standalone(drawing).encode()
    elif suffix == ".pdf":
        with _own_font():
            data = vl_convert.svg_to_pdf(standalone(drawing))
    elif suffix and cv2.haveImageWriter(f"x{suffix}"):
        pixels = cv2.imdecode(np.frombuffer(png(drawing, SCALE), np.uint8), cv2.IMREAD_COLOR)
        assert pixels is not None
        data = cv2.imencode(suffix, pixels, [cv2.IMWRITE_PNG_COMPRESSION, 9] if suffix == ".png" else [])[1].tobytes()
    else:
        raise PictureError(f"{path}: unknown format; use .png, .svg, .pdf, .jpg, .webp or .tif")
    replace_file(path, data)


def png(drawing: str, scale: float, style: str = "") -> bytes:
    """Return an SVG drawing as PNG with `scale` pixels per px; `style` has further rules."""
    with _own_font():
        return vl_convert.svg_to_png(standalone(drawing, style), scale=scale)


def standalone(drawing: str, style: str = "") -> str:
    """Return an SVG drawing as a document with its style, on white; `style` has further rules."""
    size = re.search(r'viewBox="0 0 (\S+) (\S+)"', drawing)
    assert size
    tag, rest = drawing.split(">", 1)
    tag = tag.replace("<svg ", f'<svg xmlns="http://www.w3.org/2000/svg" width="{size[1]}" height="{size[2]}" ', 1)
    return f'{tag}><style>{_resolved(style)}</style><rect width="100%" height="100%" fill="#fff"/>{rest}'


@cache
def _resolved(style: str) -> str:
    """Return the pages' rules for drawings, and further ones, with the colours of light pages."""
    sheet = (_TEMPLATES / "style.css").read_text()
    colours = dict(re.findall(r"--([\w-]+): (#\w+)", sheet[: sheet.index("@media")])) | palette.colours()
    rules = [line for line in sheet.splitlines() if line.startswith(".plot ")] + palette.rules()
    return re.sub(r"var\(--([\w-]+)\)", lambda name: colours[name[1]], "\n".join([*rules, _FONT, style]))


@contextmanager
def _own_font() -> Iterator[None]:
    """Hide the machine's fonts, of which the rasteriser would prefer another version of its own."""
    before = os.environ.get("FONTCONFIG_FILE")
    os.environ["FONTCONFIG_FILE"] = str(_TEMPLATES / "fonts.conf")
    try:
        yield
    finally:
        if before is None:
            del os.environ["FONTCONFIG_FILE"]
        else:
            os.environ["FONTCONFIG_FILE"] = before
