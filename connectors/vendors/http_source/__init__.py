"""Any HTTP API with JSON answers, mapped to a table of evidence in the settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field, StringConstraints, model_validator

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
from faultline.connectors.shared.rows.expressions import Expression, MappedTable, check_columns
from faultline.connectors.shared.settings.connector_settings import SelfHostedSettings
from faultline.connectors.shared.settings.placeholders import FilledText, Template, Texts

PlainPath = Annotated[FilledText, StringConstraints(pattern=r"^/[^/\s?#\\][^\s?#\\]{0,499}$|^/$")]


class HttpSourceSettings(SelfHostedSettings):
    """Any HTTP API that answers JSON, as a source of evidence: docs/connectors/http_source.md."""

    token_header: str | None = Field(default=None, pattern=r"^[A-Za-z0-9-]{1,80}$")
    """The header that carries `token`, such as `X-Api-Key`. Unset: `Authorization`."""
    path: PlainPath = "/"
    """What is asked below `url`. May hold placeholders, as may `params`, `body` and `link`."""
    params: Texts = Field(default_factory=dict)
    """Parameters of the query."""
    body: Template | None = None
    """A JSON body. It is sent by POST, which needs `is_search`."""
    is_search: bool = False
    """Says that a POST with this body only searches and changes nothing."""
    table: MappedTable = "logs"
    """The table of the case folder that the answer becomes: metrics, logs, changes or states."""
    items: Expression | None = None
    """JMESPath of the list of entries in the answer. Unset: the answer is the list."""
    columns: Mapping[str, Expression] = Field(default_factory=dict)
    """JMESPath of each column in an entry. Unset: the source is not asked."""
    link: FilledText | None = Field(default=None, pattern=r"^https?://\S{1,2000}$")
    """Where people see the same."""

    @model_validator(mode="after")
    def _complete(self) -> HttpSourceSettings:
        if self.body is not None and not self.is_search:
            raise ValueError("body needs is_search = true: a source must not change anything")
        if self.columns:
            check_columns(self.table, self.columns)
        return self


CONNECTOR = ConnectorType(
    name="http_source",
    settings=HttpSourceSettings,
    build="faultline.connectors.vendors.http_source.connector:build",
    kinds=("metrics", "logs", "changes", "states"),
    docs="http_source.md",
    listing=Listing(
        title="Any HTTP API that answers in JSON",
        login="as Prometheus",
        places="what the mapping names",
        permissions="to read what is asked for",
        tested_against="a real HTTP server",
    ),
)
