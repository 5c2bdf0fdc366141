"""The chart in terminals that show sixels."""

from __future__ import annotations

import io
import os
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from faultline.bot.answer.pictures.png import png_of
from faultline.bot.cli.terminal_chart import pixels_of, sixels
from tests.bot.cli.terminal import in_terminal

ROOT = Path(__file__).parents[3]
DRAWING = (
    '<svg xmlns="http://www.w3.org/2000/svg" class="pic" height="60">'
    '<rect x="10" y="10" width="200" height="30" fill="#b84a00"/>'
    '<circle cx="300" cy="30" r="25" fill="#0a63a5"/></svg>'
)


def drawn(picture: str) -> NDArray[np.uint8]:
    """What a terminal makes of it, by VT330/VT340's manual."""
    head = re.match(r'\x1bP0;1q"1;1;(\d+);(\d+)(.*)\x1b\\$', picture, re.DOTALL)
    assert head is not None
    width, height, body = int(head[1]), int(head[2]), head[3]
    shown = np.zeros((height + 6, width, 3), np.uint8)
    colours: dict[int, list[int]] = {}
    x = y = current = 0
    for part in re.finditer(r"#(\d+)(?:;2;(\d+);(\d+);(\d+))?|!(\d+)([?-~])|([?-~])|([$-])", body):
        number, red, green, blue, count, repeated, single, control = part.groups()
        if number is not None:
            current = int(number)
            if red is not None:
                colours[current] = [round(int(one) * 2.55) for one in (red, green, blue)]
        elif control is not None:
            x, y = 0, y + 6 * (control == "-")
        else:
            bits, length = ord(repeated or single) - 63, int(count or 1)
            for row in range(6):
                if bits >> row & 1:
                    shown[y + row, x : x + length] = colours[current]
            x += length
            assert x <= width
    return shown[:height]


def png_with(image: Image.Image) -> bytes:
    file = io.BytesIO()
    image.save(file, "png")
    return file.getvalue()


@pytest.mark.parametrize("mode", ["RGB", "RGBA"])
def test_pixels_are_those_of_the_png(mode: str) -> None:
    rng = np.random.default_rng(1)
    bands = {"RGB": 3, "RGBA": 4}[mode]
    smooth = np.add.outer(np.arange(40), np.arange(70))[:, :, None] * np.arange(1, bands + 1)
    noisy = (smooth + rng.integers(0, 30, smooth.shape)).astype(np.uint8)
    image = Image.fromarray(noisy, mode)
    white = Image.new("RGBA", image.size, "white")
    expected = np.asarray(Image.alpha_composite(white, image.convert("RGBA")).convert("RGB"))
    found = pixels_of(png_with(image))
    assert found is not None
    assert np.abs(found.astype(int) - expected.astype(int)).max() <= 1


def test_a_terminal_draws_the_picture() -> None:
    png = png_of([DRAWING])
    picture = sixels(png)
    assert picture is not None
    wanted = np.asarray(Image.open(io.BytesIO(png)).convert("RGB")).astype(int)
    shown = drawn(picture).astype(int)
    assert shown.shape == wanted.shape
    # Half a step of six levels.
    assert np.abs(shown - wanted).max() <= 27


def test_another_form_of_picture_is_left_to_dots() -> None:
    assert sixels(b"GIF89a") is None
    assert sixels(png_with(Image.new("L", (4, 4)))) is None


@pytest.mark.parametrize(("answer", "said"), [(b"\x1b[?62;4;22c", "True"), (b"\x1b[?6c", "False")])
def test_the_terminal_is_asked_whether_it_shows_them(
    answer: bytes, said: str, tmp_path: Path
) -> None:
    asks = (
        "from faultline.bot.cli.terminal_chart import shows_sixels; print('shows:', shows_sixels())"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    with in_terminal([sys.executable, "-c", asks], cwd=tmp_path, env=env) as (terminal, _):
        terminal.wait_for("\x1b[c")
        terminal.send(answer)
        terminal.wait_for(f"shows: {said}")


def test_a_terminal_that_says_nothing_is_not_waited_for(tmp_path: Path) -> None:
    asks = (
        "from faultline.bot.cli.terminal_chart import shows_sixels; print('shows:', shows_sixels())"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    with in_terminal([sys.executable, "-c", asks], cwd=tmp_path, env=env) as (terminal, _):
        terminal.wait_for("shows: False")
