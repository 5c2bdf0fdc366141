"""Read-only tools of MCP servers, asked during an investigation."""

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
from faultline.connectors.vendors.mcp_servers.settings import McpServerSettings

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
