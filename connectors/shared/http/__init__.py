"""JSON APIs over HTTP: GET, pages by links, GraphQL."""
