"""Writes the table of docs/connectors/README.md from what the connectors declare.

python docs/connectors_table.py
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from faultline.bot.settings.alert_sources import BUILT_IN
from faultline.connectors.registry import CONNECTORS
from faultline.connectors.shared.contract.connector_type import ConnectorType

PAGE = Path(__file__).parent / "connectors" / "README.md"
BEGIN = "<!-- written by docs/connectors_table.py -->\n"
END = "<!-- end of the table -->\n"
HEAD = (
    "| source | reads | alerts in | log in with | places | least permissions | tested against |\n"
    "|---|---|---|---|---|---|---|\n"
)
ALERTS_OF = {"aws": "cloudwatch", "grafana": "alertmanager"}
"""The alert source of a connector, where its name differs."""


def table() -> str:
    """Every connector with a listing, in the order in which they are asked."""
    return HEAD + "".join(_rows())


def page() -> str:
    """The page with today's table."""
    before, rest = PAGE.read_text().split(BEGIN)
    return before + BEGIN + table() + END + rest.split(END)[1]


def _rows() -> Iterator[str]:
    for name, connector in CONNECTORS.items():
        if connector.listing is None:
            continue
        cells = (
            f"[{connector.listing.title}]({connector.docs})",
            _reads(connector),
            "✓" if ALERTS_OF.get(name, name) in BUILT_IN else "",
            connector.listing.login,
            connector.listing.places,
            connector.listing.permissions,
            connector.listing.tested_against,
        )
        yield f"| {' | '.join(cells)} |\n"


def _reads(connector: ConnectorType[Any]) -> str:
    also = connector.listing.also if connector.listing else ""
    return ", ".join((*connector.kinds, also) if also else connector.kinds)


if __name__ == "__main__":
    PAGE.write_text(page())
