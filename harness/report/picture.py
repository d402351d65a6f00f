# SPDX-License-Identifier: Apache-2.0
"""Drawings of `svg.py` as files: the pages' light colours, and a font that is part of the rasteriser."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from sojourn.hardware.machine.files import replace_file
from sojourn.harness.report import palette

SCALE = 1.5
"""Pixels of an image per px of its drawing."""
_TEMPLATES = Path(__file__).parent / "templates"
_FONT = '.plot { font-family: "Liberation Sans", Arial, Helvetica, sans-serif }'


#: Formats of images with transparency.
_TRANSPARENT = (".png", ".webp", ".tif", ".tiff")


class PictureError(RuntimeError):
    """A picture cannot be written; the message names the file and the formats."""


@dataclass(frozen=True)
class Style:
    """How a drawing looks as a file, in addition to the pages' rules for drawings."""

    rules: str = ""
    """Further rules."""
    ground: bool = True
    """Whether it is on white; a format without transparency always is."""
    scale: float = SCALE
    """Pixels of an image per px of the drawing."""
    points: float = 1.0
    """Points of a PDF (1/72 inch) per px of the drawing."""


PAGE = Style()


def write_picture(drawing: str, path: Path, style: Style = PAGE) -> None:
    """Write an SVG drawing; the suffix of `path` determines the format: svg, pdf, or an image (png, jpg, webp, tif).

    The same drawing gives the same bytes, except in a PDF, which has its date. Raises PictureError, OSError.
    """
    suffix = path.suffix.lower()
    if suffix == ".svg":
        data = standalone(drawing, style.rules, style.ground).encode()
    elif suffix == ".pdf":
        with _own_font():
            data = _rasteriser().svg_to_pdf(standalone(drawing, style.rules, style.ground, style.points))
    elif suffix == ".pgf":
        raise PictureError(f"{path}: PGF is not supported; write a .pdf and use \\includegraphics")
    elif suffix and cv2.haveImageWriter(f"x{suffix}"):
        ground = style.ground or suffix not in _TRANSPARENT
        drawn = np.frombuffer(png(drawing, style.scale, style.rules, ground), np.uint8)
        pixels = cv2.imdecode(drawn, cv2.IMREAD_COLOR if ground else cv2.IMREAD_UNCHANGED)
        assert pixels is not None
        data = cv2.imencode(suffix, pixels, [cv2.IMWRITE_PNG_COMPRESSION, 9] if suffix == ".png" else [])[1].tobytes()
    else:
        raise PictureError(f"{path}: unknown format; use .png, .svg, .pdf, .jpg, .webp or .tif")
    replace_file(path, data)


def png(drawing: str, scale: float, rules: str = "", ground: bool = True) -> bytes:
    """Return an SVG drawing as PNG with `scale` pixels per px; `rules` and `ground` as in `standalone`."""
    with _own_font():
        drawn: bytes = _rasteriser().svg_to_png(standalone(drawing, rules, ground), scale=scale)
    return drawn


def standalone(drawing: str, rules: str = "", ground: bool = True, unit: float = 1.0) -> str:
    """Return an SVG drawing as a document with its style and further `rules`, on white with `ground`.

    `unit` is its width over that of the drawing.
    """
    size = re.search(r'viewBox="0 0 (\S+) (\S+)"', drawing)
    assert size
    width, height = (f"{float(side) * unit:g}" for side in size.groups())
    tag, rest = drawing.split(">", 1)
    tag = tag.replace("<svg ", f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" ', 1)
    white = '<rect width="100%" height="100%" fill="#fff"/>' if ground else ""
    # On pages a drawing has the width of its column, and viewers apply that rule to a file too.
    of_file = f"{_resolved(rules)}\n.plot {{ width: {width}px; height: {height}px }}"
    return f"{tag}><style>{of_file}</style>{white}{rest}"


def _rasteriser() -> Any:
    """Return vl_convert. Raises PictureError without it."""
    try:
        import vl_convert
    except ImportError as missing:
        raise PictureError(
            "images, PDF files and films need the extra: pip install 'sojourn[figures]', in a checkout: "
            "sh harness/setup.sh figures; a figure can be a .svg without it"
        ) from missing
    return vl_convert


@cache
def _resolved(further: str) -> str:
    """Return the pages' rules for drawings, and further ones, with the colours of light pages."""
    sheet = (_TEMPLATES / "style.css").read_text()
    colours = dict(re.findall(r"--([\w-]+): (#\w+)", sheet[: sheet.index("@media")])) | palette.colours()
    rules = [line for line in sheet.splitlines() if line.startswith(".plot ")] + palette.rules()
    return re.sub(r"var\(--([\w-]+)\)", lambda name: colours[name[1]], "\n".join([*rules, _FONT, further]))


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
