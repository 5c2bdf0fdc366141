"""A share of answers with the interval that its number of cases allows (Wilson, 95 %)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from faultline.analysis.case.earlier import is_telling

Z = 1.96
"""Standard errors on both sides of a 95 % interval."""


@dataclass(frozen=True)
class Share:
    """Of `of` answers `right` were right: the share between `low` and `high`."""

    right: int
    of: int

    @property
    def share(self) -> float:
        """In [0, 1]; 0 of none."""
        return self.right / self.of if self.of else 0.0

    @property
    def low(self) -> float:
        """Lower end of the interval."""
        return self._ends()[0]

    @property
    def high(self) -> float:
        """Upper end."""
        return self._ends()[1]

    @property
    def few(self) -> bool:
        """Whether they are too few to say anything."""
        return not is_telling(self.of)

    def _ends(self) -> tuple[float, float]:
        # Without answers the share may be anything.
        if not self.of:
            return 0.0, 1.0
        p, n, z2 = self.share, self.of, Z * Z
        middle = (p + z2 / (2 * n)) / (1 + z2 / n)
        half = Z / (1 + z2 / n) * math.sqrt(p * (1 - p) / n + z2 / (4 * n * n))
        return max(0.0, middle - half), min(1.0, middle + half)
