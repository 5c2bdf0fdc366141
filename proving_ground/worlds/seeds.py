"""Random numbers: one stream of worlds to fit on, another to measure on, and one generator per
topic."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np

TRAIN_STREAM = 0x7A11
TEST_STREAM = 0x7E57
"""The two streams never share a world: the tag is part of the entropy, so that seed 7 of one has
nothing in common with seed 7 of the other."""


@dataclass(frozen=True)
class WorldSeed:
    """The seed of one world. Equal seeds give equal worlds, byte for byte."""

    number: int
    test: bool = False

    def generator(self, *topic: str | int) -> np.random.Generator:
        """A generator for that topic alone.

        Draws for one topic never shift those of another: the replay without the fault therefore
        sees the same load, the same noise and the same telemetry.
        """
        stream = TEST_STREAM if self.test else TRAIN_STREAM
        words = [stream, self.number]
        for part in topic:
            words.append(zlib.crc32(str(part).encode()))
        return np.random.default_rng(np.random.SeedSequence(words))

    @property
    def text(self) -> str:
        """Like "test-000017"."""
        stream = "test" if self.test else "train"
        return f"{stream}-{self.number:06d}"
