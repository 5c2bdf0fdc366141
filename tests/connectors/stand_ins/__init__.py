"""A stand-in for each vendor: answers in the vendor's shapes, on a loopback server.

Each module is named as its connector is in `faultline.connectors.registry` and holds
`settings(url)` (tables in which the connector speaks to that address), `serve(server)` (answers for
every call it makes) and, where reading takes a POST, `READING_POSTS` (the paths it may be sent to).
"""
