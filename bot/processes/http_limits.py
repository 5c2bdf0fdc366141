"""What a connection may send before it is a request: uvicorn's fast protocol itself sets no limit
on headers."""

from __future__ import annotations

from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEAD_BYTES = 64 * 1024
"""Request line and headers; the senders of webhooks, and browsers, stay below 16 KiB."""


class LimitedHead(HttpToolsProtocol):
    """Answers 400 and closes the connection when a request's head does not end within the limit."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._in_head = True
        self._head_bytes = 0

    def data_received(self, data: bytes) -> None:
        """Count what came before the end of a head."""
        if self._in_head:
            self._head_bytes += len(data)
        super().data_received(data)
        if self._in_head and self._head_bytes > MAX_HEAD_BYTES and not self.transport.is_closing():
            self.send_400_response("The request's headers are too long.")

    def on_message_begin(self) -> None:
        """A head begins."""
        self._in_head = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """A head ended."""
        self._in_head, self._head_bytes = False, 0
        super().on_headers_complete()
