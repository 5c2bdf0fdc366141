"""A PNG as sixels, for terminals that speak neither kitty's nor iTerm2's protocol: foot, Konsole,
mlterm, Windows Terminal, xterm.

Format: VT330/VT340 Programmer Reference, chapter 14. A sixel is a column of six pixels.
"""

from __future__ import annotations

import os
import re
import select
import struct
import sys
import termios
import tty
import zlib
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Pixels = NDArray[np.uint8]

SIGNATURE = b"\x89PNG\r\n\x1a\n"
RGB, RGBA = 2, 6
LEVELS = 6
"""Of red, green and blue each: 216 colours, of the 256 that terminals have."""
ROWS = 6
ANSWERS_WITHIN_S = 1.0
"""Terminals answer at once; a second covers a slow way there."""
_ATTRIBUTES = re.compile(rb"\x1b\[\?([\d;]*)c")
SIXEL_GRAPHICS = b"4"


def shows_sixels() -> bool:
    """Whether the terminal says so when it is asked for its attributes (DA1). Both standard
    input and output must be the terminal."""
    stdin_fd = sys.stdin.fileno()
    before = termios.tcgetattr(stdin_fd)
    try:
        tty.setcbreak(stdin_fd)
        os.write(sys.stdout.fileno(), b"\x1b[c")
        answer = b""
        while b"c" not in answer:
            ready, _, _ = select.select([stdin_fd], [], [], ANSWERS_WITHIN_S)
            more = os.read(stdin_fd, 64) if ready else b""
            if not more:
                return False
            answer += more
    finally:
        # Otherwise the shell would stay without echo.
        termios.tcsetattr(stdin_fd, termios.TCSANOW, before)
    match = _ATTRIBUTES.search(answer)
    # The first number is the terminal's class; its attributes follow.
    return match is not None and SIXEL_GRAPHICS in match[1].split(b";")[1:]


def sixels(png: bytes) -> str | None:
    """The picture; None for a PNG of another form than those that are drawn here."""
    pixels = pixels_of(png)
    if pixels is None:
        return None
    # Round to the nearest level, in whole numbers.
    steps = (pixels.astype(np.uint16) * (LEVELS - 1) + 127) // 255
    numbers = steps[:, :, 0] * LEVELS * LEVELS + steps[:, :, 1] * LEVELS + steps[:, :, 2]
    height, width = numbers.shape
    used = np.unique(numbers)
    head = f'\x1bP0;1q"1;1;{width};{height}'
    bands = (_band(numbers[top : top + ROWS]) for top in range(0, height, ROWS))
    return head + "".join(_colour(int(n)) for n in used) + "-".join(bands) + "\x1b\\"


def _colour(number: int) -> str:
    parts = number // (LEVELS * LEVELS), number // LEVELS % LEVELS, number % LEVELS
    percents = ";".join(str(round(100 * part / (LEVELS - 1))) for part in parts)
    return f"#{number};2;{percents}"


def _band(numbers: NDArray[np.uint16]) -> str:
    """Six rows: each colour over the whole width, one after the other."""
    bits = (1 << np.arange(len(numbers)))[:, None]
    lines = []
    for number in np.unique(numbers):
        columns = ((numbers == number) * bits).sum(axis=0)
        lines.append(f"#{number}" + "".join(_runs(columns)))
    return "$".join(lines)


def _runs(columns: NDArray[np.int64]) -> Iterator[str]:
    edges = np.flatnonzero(np.diff(columns)) + 1
    starts = np.concatenate([[0], edges])
    for start, end in zip(starts, np.concatenate([edges, [len(columns)]]), strict=True):
        # Sixel letters begin at "?", which is 63.
        count, letter = int(end - start), chr(63 + int(columns[start]))
        # `!3x` is no shorter than three letters.
        yield f"!{count}{letter}" if count > 3 else letter * count


def pixels_of(png: bytes) -> Pixels | None:
    """Rows of red, green and blue on white, of a PNG with 8 bits a channel that is not interlaced
    (the PNG specification, third edition, 9: filtering)."""
    if not png.startswith(SIGNATURE):
        return None
    width, height, depth, kind, _, _, interlaced = struct.unpack(">IIBBBBB", png[16:29])
    if depth != 8 or kind not in (RGB, RGBA) or interlaced:
        return None
    channels = 3 if kind == RGB else 4
    data = zlib.decompress(b"".join(_chunks(png)))
    stride = width * channels
    lines = np.frombuffer(data, np.uint8).reshape(height, 1 + stride)
    pixels = np.zeros((height, width, channels), np.uint8)
    above = np.zeros((width, channels), np.uint8)
    for y in range(height):
        above = _unfiltered(int(lines[y, 0]), lines[y, 1:].reshape(width, channels), above)
        pixels[y] = above
    if channels == 3:
        return pixels
    cover = pixels[:, :, 3:].astype(np.uint16)
    return ((pixels[:, :, :3] * cover + 255 * (255 - cover)) // 255).astype(np.uint8)


def _chunks(png: bytes) -> Iterator[bytes]:
    at = len(SIGNATURE)
    while at + 8 <= len(png):
        (size,) = struct.unpack(">I", png[at : at + 4])
        if png[at + 4 : at + 8] == b"IDAT":
            yield png[at + 8 : at + 8 + size]
        at += size + 12


def _unfiltered(kind: int, line: Pixels, above: Pixels) -> Pixels:
    if kind == 0:
        return line
    if kind == 1:
        # Sub: the sums wrap at 256, as bytes do.
        return np.cumsum(line, axis=0, dtype=np.uint8)
    if kind == 2:
        return line + above
    # Average (3) and Paeth (4) need the pixel before, so they go one by one.
    out = np.zeros_like(line)
    for channel in range(line.shape[1]):
        left = corner = 0
        column = []
        for raw, up in zip(line[:, channel].tolist(), above[:, channel].tolist(), strict=True):
            guess = (left + up) // 2 if kind == 3 else _paeth(left, up, corner)
            left, corner = (raw + guess) & 255, up
            column.append(left)
        out[:, channel] = column
    return out


def _paeth(left: int, up: int, corner: int) -> int:
    base = left + up - corner
    near = (abs(base - left), abs(base - up), abs(base - corner))
    return (left, up, corner)[near.index(min(near))]
