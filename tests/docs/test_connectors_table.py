"""The table of connectors is what they declare."""

from __future__ import annotations

from faultline.connectors.registry import CONNECTORS
from tests.docs.scripts import script


def test_every_connector_stands_in_the_table_as_it_declares_itself() -> None:
    table = script("connectors_table")
    assert table.PAGE.read_text() == table.page(), "run python docs/connectors_table.py"
    assert all(one.listing for one in CONNECTORS.values())
