# SPDX-License-Identifier: Apache-2.0
"""Bodies of a page's resources: valid documents, styles, scripts, pictures and fonts of an exact size.

Nobody else's content is in them. No server compresses them, so that their size is that on the wire.
"""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Iterator, Sequence

_WORDS = (
    "queue", "packet", "window", "sender", "marking", "latency", "burst", "link", "router", "flow", "delay", "rate",
    "path", "share", "probe", "signal", "buffer", "host", "frame", "segment",
)  # fmt: skip
#: A picture with fewer bytes than this cannot be padded to an exact size.
LEAST_PNG = 100
_CHUNK = 12  # length, type and checksum of a PNG chunk
#: Bits per pixel of pictures: of grey ones, and of red, green and blue.
_BITS = 1, 2, 4, 8, 24
#: Most bytes of a stored block, those of its header (RFC 1951, 3.2.4), and a factor by which zeros at least shrink.
_LONGEST, _STORED, _DEFLATED = 65535, 5, 500
_PRIVATE = 0xE000  # the only character of the fonts: all others fall back, so that text stays readable


def words(draw: random.Random, number: int) -> str:
    """Return a text of some words."""
    return " ".join(draw.choices(_WORDS, k=number))


def padded(text: str, size: int, before: str = "/*", after: str = "*/") -> bytes:
    """Return a text of exactly `size` bytes, filled with a comment; longer if the text is, or if no comment fits."""
    content = text.encode()
    missing = size - len(content)
    least = len(before) + len(after)
    return content if missing < least else content + f"{before}{'.' * (missing - least)}{after}".encode()


def style(draw: random.Random, rules: str, size: int) -> bytes:
    """Return a style sheet that begins with `rules`; the rest are rules for elements that no page has."""
    return padded("".join(_filled(rules, size - 120, _rules(draw))), size)


def script(draw: random.Random, statements: str, size: int) -> bytes:
    """Return a script that executes `statements`; the rest are functions that nothing calls."""
    return padded("".join(_filled(statements, size - 160, _functions(draw))), size)


def _filled(begins: str, size: int, more: Iterator[str]) -> Iterator[str]:
    yield begins
    length = len(begins.encode())
    while length < size:
        length += len(text := next(more))
        yield text


def _rules(draw: random.Random) -> Iterator[str]:
    while True:
        name, colour = draw.choice(_WORDS), draw.randrange(1 << 24)
        yield f".{name}-{draw.randrange(10**6)}{{color:#{colour:06x};margin:{draw.randrange(99)}px}}\n"


def _functions(draw: random.Random) -> Iterator[str]:
    while True:
        name, number = draw.choice(_WORDS), draw.randrange(10**9)
        yield f"function {name}{number}(a,b){{return a*{draw.randrange(99)}+b.{draw.choice(_WORDS)}({number});}}\n"


def picture(draw: random.Random, size: int, width: int, height: int) -> bytes:
    """Return a PNG of exactly `size` bytes, at least LEAST_PNG and one per 4000 px, and of `width` x `height` px.

    Noise, which no codec can shorten, fills it from the top, with as few bits per pixel as hold all bytes. The rows
    below are black, and take next to none (RFC 2083).
    """

    def room(bits: int) -> int:
        """Return how many bytes of noise fit into the file of a picture of this depth."""
        whole = height * _row(width, bits)
        return size - LEAST_PNG - whole // _DEFLATED - _STORED * (whole // _LONGEST)

    bits = next((bits for bits in _BITS if height * _row(width, bits) >= room(bits)), _BITS[-1])
    row = _row(width, bits)
    noisy = min(height, max(0, room(bits)) // row)
    noise = b"".join(b"\0" + draw.randbytes(row - 1) for _ in range(noisy))
    header = struct.pack(">IIBBBBB", width, height, min(bits, 8), 2 if bits > 8 else 0, 0, 0, 0)
    made = b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + _chunk(b"IDAT", _zlib(noise, (height - noisy) * row))
    end = _chunk(b"IEND", b"")
    missing = size - len(made) - len(end)
    # An ancillary, private chunk that is safe to copy (RFC 2083, 3.3).
    return made + _chunk(b"paDd", draw.randbytes(missing - _CHUNK)) + end


def _row(width: int, bits: int) -> int:
    """Return the number of bytes of a row: its filter, and its pixels."""
    return 1 + (width * bits + 7) // 8


def _zlib(noise: bytes, zeros: int) -> bytes:
    """Return a zlib stream (RFC 1950) of noise, stored, and of zeros, compressed."""
    stored = (noise[at : at + _LONGEST] for at in range(0, len(noise), _LONGEST))
    blocks = b"".join(struct.pack("<BHH", 0, len(it), len(it) ^ 0xFFFF) + it for it in stored)
    black = bytes(zeros)
    compressor = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    blocks += compressor.compress(black) + compressor.flush()
    return b"\x78\x01" + blocks + struct.pack(">I", zlib.adler32(black, zlib.adler32(noise)))


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def font(draw: random.Random, size: int) -> bytes:
    """Return a TrueType font of exactly `size` bytes, with one empty character in the private use area (OpenType 1.9).

    It is longer if the tables are. Noise in a table that no renderer knows fills it up to its size.
    """
    tables = _font_tables()
    used = 12 + 16 * (len(tables) + 1) + sum(len(_aligned(table)) for table in tables.values())
    tables[b"zPAD"] = draw.randbytes(max(0, size - used))
    return _sfnt(tables)


def _aligned(table: bytes) -> bytes:
    return table + bytes(-len(table) % 4)


def _checksum(table: bytes) -> int:
    numbers: tuple[int, ...] = struct.unpack(f">{len(_aligned(table)) // 4}I", _aligned(table))
    return sum(numbers) & 0xFFFFFFFF


def _sfnt(tables: dict[bytes, bytes]) -> bytes:
    number = len(tables)
    entry = number.bit_length() - 1
    search = 16 << entry
    directory = struct.pack(">IHHHH", 0x00010000, number, search, entry, 16 * number - search)
    content, offset = b"", 12 + 16 * number
    for tag, table in sorted(tables.items()):
        directory += tag + struct.pack(">III", _checksum(table), offset + len(content), len(table))
        content += table if tag == max(tables) else _aligned(table)
    return directory + content


def _font_tables() -> dict[bytes, bytes]:
    """Return the tables that every font needs, of one with a glyph for "not defined" and one for a character."""
    glyphs, em, name = 2, 1000, "Sojourn".encode("utf-16-be")
    # Two segments: the character, and the one that every table ends with.
    ends = starts = _PRIVATE, 0xFFFF
    segments = struct.pack(">16H", 4, 32, 0, 4, 4, 1, 0, *ends, 0, *starts, (1 - _PRIVATE) & 0xFFFF, 1, 0, 0)
    names = b"".join(struct.pack(">HHHHHH", 3, 1, 0x409, which, len(name), 0) for which in (1, 2, 4, 6))
    return {
        b"OS/2": struct.pack(
            ">HhHHHhhhhhhhhhhh10s4I4sHHHhhhHHII", 3, em, 400, 5, 0, 650, 600, 0, 75, 650, 600, 0, 350, 50, 300, 0,
            bytes(10), 0, 0, 0, 0, b"SOJN", 0x40, _PRIVATE, _PRIVATE, 800, -200, 90, 800, 200, 1, 0,
        ) + struct.pack(">hhHHH", 500, 700, 0, 32, 1),
        b"cmap": struct.pack(">HHHHI", 0, 1, 3, 1, 12) + segments,
        b"glyf": bytes(4),
        b"head": struct.pack(
            ">IIIIHHqqhhhhHHhhh", 0x00010000, 0x00010000, 0, 0x5F0F3CF5, 3, em, 0, 0, 0, 0, 500, 700, 0, 8, 2, 0, 0
        ),
        b"hhea": struct.pack(">IhhhH11hH", 0x00010000, 800, -200, 90, 500, 0, 0, 0, 1, *[0] * 7, glyphs),
        b"hmtx": struct.pack(">HhHh", 500, 0, 500, 0),
        b"loca": struct.pack(">HHH", 0, 0, 0),
        b"maxp": struct.pack(">IH13H", 0x00010000, glyphs, *[0] * 2, *[0] * 2, 2, *[0] * 8),
        b"name": struct.pack(">HHH", 0, 4, 6 + 12 * 4) + names + name,
        b"post": struct.pack(">IIhhIIIII", 0x00030000, 0, -75, 50, 0, 0, 0, 0, 0),
    }  # fmt: skip


def document(draw: random.Random, head: Sequence[str], parts: Sequence[str], size: int) -> bytes:
    """Return an HTML document with these lines in its head and these parts in its body, with text between them."""
    begins = '<!doctype html><html lang="en"><meta charset="utf-8"><title>Page</title>' + "".join(head) + "<body>"
    fixed = len(begins.encode()) + sum(len(part.encode()) for part in parts)
    paragraphs = max(1, len(parts))
    room = max(0, size - fixed - 40) // paragraphs
    texts = []
    for _ in range(paragraphs):
        text = words(draw, min(max(0, room - 10) // 7, 80))
        texts.append(f"<p>{text}" if text else "")
    body = "".join(text + part for text, part in zip(texts, [*parts, *[""] * (paragraphs - len(parts))], strict=True))
    return padded(begins + body, size, "<!--", "-->")
