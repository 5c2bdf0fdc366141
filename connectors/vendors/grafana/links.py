"""Links to Grafana's Explore page at a query and window.

The address is the one of grafana.com/docs/grafana/latest/explore, "Generate Explore URLs" (Grafana
10 and later).
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlencode

import msgspec

from faultline.analysis.vocabulary import Window
from faultline.connectors.shared.rows.collection_builder import epoch_ms


class Explore:
    """Links for one data source. `source` is its uid in Grafana, `kind` its type."""

    def __init__(self, public_url: str | None, kind: str, source: str) -> None:
        self._public_url = public_url
        self._kind = kind
        self._source = source

    def link(self, query: Mapping[str, str], window: Window, otherwise: str) -> str:
        """The page with this query; the other address where no Grafana is configured."""
        if self._public_url is None:
            return otherwise
        pane_query = {
            "refId": "A",
            "datasource": {"type": self._kind, "uid": self._source},
            **query,
        }
        between = {"from": str(epoch_ms(window.start)), "to": str(epoch_ms(window.end))}
        pane = {"datasource": self._source, "queries": [pane_query], "range": between}
        panes = msgspec.json.encode({"a": pane}).decode()
        return (
            f"{self._public_url}/"
            f"explore?{urlencode({'schemaVersion': '1', 'panes': panes, 'orgId': '1'})}"
        )
