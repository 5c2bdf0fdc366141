"""Read-only tools of MCP servers, asked during an investigation."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field, model_validator

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
from faultline.connectors.shared.rows.expressions import Expression, MappedTable, check_columns
from faultline.connectors.shared.settings.connector_settings import SelfHostedSettings
from faultline.connectors.shared.settings.placeholders import Template
from faultline.connectors.shared.settings.settings_types import Section


class McpToolSettings(Section):
    """A tool that may be called: [mcp_servers.tools.NAME]."""

    arguments: Template = Field(default_factory=dict)
    """What it is called with. Texts may hold placeholders, as for
    [http_source](connectors/http_source.md)."""
    is_read_only: bool = False
    """Says that it only reads. Needed where the server does not say so itself."""
    table: MappedTable | None = None
    """The table that its result becomes. Unset: text, which nothing weighs."""
    items: Expression | None = None
    """JMESPath of the list of entries in the result. Unset: the result is the list."""
    columns: Mapping[str, Expression] = Field(default_factory=dict)
    """JMESPath of each column in an entry."""

    @model_validator(mode="after")
    def _mapped(self) -> McpToolSettings:
        if self.table is not None:
            check_columns(self.table, self.columns)
        elif self.columns or self.items:
            raise ValueError("items and columns need table")
        return self


class McpServerSettings(SelfHostedSettings):
    """An MCP server whose read-only tools are asked: docs/connectors/mcp_servers.md."""

    tools: Mapping[str, McpToolSettings] = Field(default_factory=dict)
    """The tools that may be called, by name. No other is. Unset: the server is not asked."""


CONNECTOR = ConnectorType(
    name="mcp_servers",
    settings=McpServerSettings,
    build="faultline.connectors.vendors.mcp_servers.connector:build",
    kinds=("external", "metrics", "logs", "changes", "states"),
    docs="mcp_servers.md",
    listing=Listing(
        title="MCP servers",
        login="bearer, Basic, client certificate",
        places="what a tool names",
        permissions="tools that the server marks as reading",
        tested_against="a server of the official package",
    ),
)
