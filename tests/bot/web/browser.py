"""A real browser, spoken to in the DevTools protocol: one page, in a fresh profile."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-sync",
    "--no-first-run",
    "--hide-scrollbars",
    "--remote-debugging-port=0",
)
START_S = 60
WAIT_S = 15


class Page:
    """One page; `messages` holds what the browser complained of (errors, refusals by the security
    policy)."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._ids = itertools.count(1)
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self.messages: list[str] = []
        self.requested: list[str] = []
        self._reader = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async for message in self._socket:
            data = json.loads(message.data)
            if "id" in data:
                self._answers.pop(data["id"]).set_result(data)
            elif data["method"] == "Log.entryAdded":
                self.messages.append(data["params"]["entry"]["text"])
            elif data["method"] == "Runtime.exceptionThrown":
                self.messages.append(json.dumps(data["params"]["exceptionDetails"]))
            elif data["method"] == "Network.requestWillBeSent":
                self.requested.append(data["params"]["request"]["url"])

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        """One command of the protocol."""
        number = next(self._ids)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": number, "method": method, "params": params})
        data = await asyncio.wait_for(answer, WAIT_S)
        assert "error" not in data, data
        result: dict[str, Any] = data["result"]
        return result

    async def open(
        self, url: str, *, width: int = 1280, height: int = 900, dark: bool = False
    ) -> None:
        """Go there and wait until it is loaded."""
        for domain in ("Page", "Runtime", "Log", "Network"):
            await self.call(f"{domain}.enable")
        await self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 500,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.call("Emulation.setEmulatedMedia", features=[scheme])
        await self.call("Page.navigate", url=url)
        await self.until(f"location.href.startsWith({json.dumps(url)})")

    async def value(self, expression: str) -> Any:
        """The value of a JavaScript expression; promises are awaited."""
        answer = await self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    async def until(self, condition: str) -> None:
        """Wait until a page is loaded to its end, with what its scripts do, and a condition holds.

        A page of which only the beginning is parsed has some of its elements already.
        """
        loaded = f"document.readyState === 'complete' && Boolean({condition})"
        async with asyncio.timeout(WAIT_S):
            while not await self.value(loaded):
                await asyncio.sleep(0.03)

    async def screenshot(self, path: Path, *, whole: bool = True) -> None:
        """Save a picture of the page."""
        answer = await self.call("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(answer["data"]))

    async def close(self) -> None:
        """Stop listening."""
        self._reader.cancel()
        await self._socket.close()


@asynccontextmanager
async def browser_page(chromium: Path, profile: Path) -> AsyncIterator[Page]:
    """Start the browser with an empty profile, and end it with the block."""
    process = await asyncio.create_subprocess_exec(
        str(chromium),
        *FLAGS,
        f"--user-data-dir={profile}",
        "about:blank",
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        port = await _port(profile / "DevToolsActivePort", process)
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://127.0.0.1:{port}/json/list") as answer:
                target = next(
                    t for t in await answer.json(content_type=None) if t["type"] == "page"
                )
            page = Page(
                await session.ws_connect(
                    target["webSocketDebuggerUrl"], max_msg_size=64 * 1024 * 1024
                )
            )
            try:
                yield page
            finally:
                await page.close()
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def _port(file: Path, process: asyncio.subprocess.Process) -> int:
    async with asyncio.timeout(START_S):
        while not (file.exists() and file.read_text().strip()):
            assert process.returncode is None, f"the browser ended with {process.returncode}"
            await asyncio.sleep(0.05)
    return int(file.read_text().split()[0])
