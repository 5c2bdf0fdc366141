"""A stand-in for the Dynolog daemon that speaks its two protocols: RPC over TCP, and libkineto's
messages over a datagram socket. Loopback and this machine only."""

from __future__ import annotations

import json
import os
import socket
import struct
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_LENGTH = struct.Struct("<i")
_METADATA = struct.Struct("<Q32s")
_CONTEXT = struct.Struct("<iiq")
_REQUEST = struct.Struct("<iiq")
CLIENT_SILENT = "ctxt"


@dataclass
class Process:
    """A registered training process and the configuration that waits for its next poll."""

    pid: int
    job: int
    address: Any = None
    config: str = ""


@dataclass
class DynologDaemon:
    """Start with `with`. `folder`: where the datagram socket lies (KINETO_IPC_SOCKET_DIR of the
    job)."""

    folder: Path | None = None
    processes: dict[int, Process] = field(default_factory=dict)
    requests: list[dict[str, Any]] = field(default_factory=list)
    answer: bytes | None = None
    """Answer every RPC with these bytes instead."""

    def __enter__(self) -> DynologDaemon:
        self._rpc = socket.create_server(("127.0.0.1", 0))
        self.port = self._rpc.getsockname()[1]
        self._threads = [threading.Thread(target=self._serve_rpc, daemon=True)]
        self._ipc: socket.socket | None = None
        if self.folder is not None:
            self._ipc = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self._ipc.bind(str(self.folder / "dynolog"))
            self._threads.append(threading.Thread(target=self._serve_ipc, daemon=True))
        self._open = True
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._open = False
        self._rpc.shutdown(socket.SHUT_RDWR)
        self._rpc.close()
        if self._ipc is not None and self.folder is not None:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as knock:
                knock.sendto(b"", str(self.folder / "dynolog"))
        for thread in self._threads:
            thread.join(timeout=5)
        if self._ipc is not None:
            self._ipc.close()

    def _serve_rpc(self) -> None:
        while self._open:
            try:
                connection, _ = self._rpc.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(5)
                self._answer_one(connection)

    def _answer_one(self, connection: socket.socket) -> None:
        (length,) = _LENGTH.unpack(_exactly(connection, _LENGTH.size))
        try:
            request = json.loads(_exactly(connection, length))
        except ValueError:
            return
        self.requests.append(request)
        if self.answer is not None:
            connection.sendall(self.answer)
            return
        reply = self._reply(request)
        if reply is not None:
            body = json.dumps(reply).encode()
            connection.sendall(_LENGTH.pack(len(body)) + body)

    def _reply(self, request: dict[str, Any]) -> dict[str, Any] | None:
        match request.get("fn"):
            case "getStatus":
                return {"status": 1}
            case "getVersion":
                return {"version": "0.5.0"}
            case "setKinetOnDemandRequest":
                return self._set(request)
        return None

    def _set(self, request: dict[str, Any]) -> dict[str, Any]:
        if "config" not in request or "pids" not in request:
            return {"status": "failed"}
        matched = [p for p in self.processes.values() if p.job == request.get("job_id", 0)]
        idle = [p for p in matched if not p.config][: request.get("process_limit", 1000)]
        for process in idle:
            process.config = request["config"] + "\nREQUEST_TRACE_ID=7\n"
        return {
            "processesMatched": [p.pid for p in matched],
            "eventProfilersTriggered": [],
            "activityProfilersTriggered": [p.pid for p in idle],
            "eventProfilersBusy": 0,
            "activityProfilersBusy": len(matched) - len(idle),
        }

    def _serve_ipc(self) -> None:
        assert self._ipc is not None
        while self._open:
            message, address = self._ipc.recvfrom(65_536)
            if len(message) < _METADATA.size:
                continue
            size, kind = _METADATA.unpack_from(message)
            body = message[_METADATA.size : _METADATA.size + size]
            answer = self._on_message(kind.rstrip(b"\0"), body)
            if answer is not None and address:
                self._ipc.sendto(_METADATA.pack(len(answer), kind) + answer, address)

    def _on_message(self, kind: bytes, body: bytes) -> bytes | None:
        if kind == b"ctxt":
            _, pid, job = _CONTEXT.unpack_from(body)
            self.processes.setdefault(pid, Process(pid, job))
            return struct.pack("<i", len(self.processes))
        if kind == b"req":
            _, count, job = _REQUEST.unpack_from(body)
            pids = struct.unpack_from(f"<{count}i", body, _REQUEST.size)
            process = self.processes.setdefault(pids[0], Process(pids[0], job))
            config, process.config = process.config, ""
            return config.encode()
        return None


def _exactly(connection: socket.socket, length: int) -> bytes:
    data = b""
    while len(data) < length:
        more = connection.recv(length - len(data))
        if not more:
            break
        data += more
    return data


def environment(folder: Path) -> dict[str, str]:
    """What a training process needs to find the daemon."""
    return dict(os.environ) | {"KINETO_USE_DAEMON": "1", "KINETO_IPC_SOCKET_DIR": str(folder)}
