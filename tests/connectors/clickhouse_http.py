"""ClickHouse's engine (chDB) behind the part of its HTTP interface that a reader needs: a program
apart, for the Python below .tools/clickhouse.

    python clickhouse_http.py PORT FOLDER     carries out FOLDER/first.sql, a statement a line

`faultline` may send settings, `strict` has a profile with `readonly = 1`; both have the password
`secret`. A query by GET is read-only, as with a server: clickhouse.com/docs/interfaces/http.
"""

from __future__ import annotations

import base64
import re
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

NO_SETTINGS = ("query", "wait_end_of_query", "default_format", "user", "password", "database")
PASSWORD = "secret"
STATUS = {"516": 403, "497": 403, "60": 404, "81": 404, "62": 400, "47": 404}
"""Of error codes that are not 500: src/Server/HTTP/exceptionCodeToHTTPStatus.cpp."""


def refusal(code: str, said: str, name: str) -> str:
    """The text of an error."""
    return f"Code: {code}. DB::Exception: {said}. ({name}) (version 26.5.1.1)\n"


class Handler(BaseHTTPRequestHandler):
    """Queries by GET."""

    session: Any = None

    def do_GET(self) -> None:
        """Answer a query, or say that the server is there."""
        asked = dict(parse_qsl(urlsplit(self.path).query))
        if "query" not in asked:
            self._send(200, "Ok.\n")
            return
        user = self._user()
        settings = {name: value for name, value in asked.items() if name not in NO_SETTINGS}
        if user is None:
            text = refusal("516", "faultline: Authentication failed", "AUTHENTICATION_FAILED")
        elif user == "strict" and settings:
            name = next(iter(settings))
            text = refusal("164", f"Cannot modify '{name}' setting in readonly mode", "READONLY")
        else:
            listed = ", ".join(f"{name} = {value}" for name, value in settings.items())
            query = f"{asked['query']} SETTINGS {listed or 'readonly = 2'}"
            try:
                self._send(200, str(self.session.query(query, "JSONCompact")))
            except RuntimeError as error:
                text = f"{error}\n"
            else:
                return
        code = re.match(r"Code: (\d+)", text)
        assert code is not None, text
        self._send(STATUS.get(code[1], 500), text, {"X-ClickHouse-Exception-Code": code[1]})

    def do_POST(self) -> None:
        """Nothing is sent by POST."""
        self._send(405, "no POST here\n")

    def _user(self) -> str | None:
        kind, _, packed = self.headers.get("Authorization", "").partition(" ")
        if kind != "Basic":
            return None
        user, _, password = base64.b64decode(packed).decode().partition(":")
        return user if password == PASSWORD and user in ("faultline", "strict") else None

    def _send(self, status: int, text: str, headers: dict[str, str] | None = None) -> None:
        body = text.encode()
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def main() -> None:
    """Serve until the end."""
    from chdb import session  # type: ignore[import-not-found]

    port, folder = int(sys.argv[1]), Path(sys.argv[2])
    Handler.session = session.Session(str(folder / "data"))
    for line in (folder / "first.sql").read_text().splitlines():
        Handler.session.query(line)
    # As a server takes a query by GET. It cannot be taken back.
    Handler.session.query("SET readonly = 2")
    HTTPServer(("127.0.0.1", port), Handler).serve_forever()


if __name__ == "__main__":
    main()
