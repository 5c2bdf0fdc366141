"""One small fault in one file: where it is, and the text that replaces what is there."""

from __future__ import annotations

from dataclasses import dataclass


class StaleMutationError(Exception):
    """The file is no longer the one that the mutation was made of."""


@dataclass(frozen=True)
class Mutation:
    """A replacement of some bytes of a file. Line numbers count from 1, offsets from 0."""

    path: str
    """Below the root of the project, with `/`."""
    line: int
    kind: str
    start: int
    original: str
    replacement: str
    before: str
    """The line as it is, without its indentation."""
    after: str

    @property
    def place(self) -> str:
        """FILE:LINE:KIND, as `--only` takes it."""
        return f"{self.path}:{self.line}:{self.kind}"

    @property
    def identity(self) -> str:
        """Two mutations of the same kind may be on one line."""
        return f"{self.place}:{self.start}:{self.replacement}"

    def applied(self, source: bytes) -> bytes:
        """The source with the fault. Raises StaleMutationError where it does not fit."""
        original = self.original.encode()
        end = self.start + len(original)
        if source[self.start : end] != original:
            raise StaleMutationError(f"{self.place}: the file has changed since")
        return source[: self.start] + self.replacement.encode() + source[end:]
