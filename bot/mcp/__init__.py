"""The MCP server: Faultline's investigations as tools, resources and prompts for coding agents."""
