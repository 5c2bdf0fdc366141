"""Addresses given on the command line."""

from __future__ import annotations

from faultline.bot.cli.source_options import urls_by_connector


def test_only_addresses_that_were_given_are_used() -> None:
    given = urls_by_connector(prometheus="http://prometheus:9090", loki=None, jaeger="")
    assert given == {"prometheus": "http://prometheus:9090"}
