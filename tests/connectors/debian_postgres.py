"""PostgreSQL of Debian with its extensions, which the wheel does not have: one that is reached
through a socket file, and replicas of it."""

from __future__ import annotations

import getpass
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.debian_tools import debian_root

PACKAGES = (
    "postgresql-client-15", "libpq5", "libllvm14", "libz3-4", "libxml2", "libxslt1.1",
    "libldap-2.5-0", "libicu72",
)  # fmt: skip
QUICK = {"fsync": "off", "full_page_writes": "off", "jit": "off", "listen_addresses": ""}
ADMIN = "postgres"


class DebianPostgres:
    """Where its programs are, and as whom they run: PostgreSQL refuses to be root's."""

    def __init__(self, folder: Path) -> None:
        root = debian_root("postgresql-15", *PACKAGES)
        self.folder = folder
        self._programs = root / "usr/lib/postgresql/15/bin"
        [libraries] = root.glob("usr/lib/*-linux-gnu*")
        self._environ = {**os.environ, "LD_LIBRARY_PATH": str(libraries), "LC_ALL": "C"}
        self._user = "nobody" if getpass.getuser() == "root" else None
        if self._user:
            shutil.chown(folder, self._user)

    def run(self, program: str, *args: str) -> None:
        """Run one of its programs; its output is kept in a file, because a server keeps it open."""
        with (self.folder / "log").open("ab") as log:
            subprocess.run(
                [str(self._programs / program), *args],
                cwd=self.folder,
                env=self._environ,
                user=self._user,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                check=True,
                timeout=120,
            )

    def start(self, data: Path, sockets: Path, settings: Mapping[str, str]) -> None:
        """Start a server and wait until it answers."""
        given = {**QUICK, "unix_socket_directories": str(sockets), **settings}
        with (data / "postgresql.conf").open("a") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in given.items())
        self.run("pg_ctl", "-D", str(data), "-w", "start")

    def stop(self, data: Path) -> None:
        """End it without waiting for its clients."""
        self.run("pg_ctl", "-D", str(data), "-m", "immediate", "stop")


@contextmanager
def debian_postgres(**settings: str) -> Iterator[tuple[DebianPostgres, Path]]:
    """A running server, and the folder of its socket."""
    folder = Path(tempfile.mkdtemp(prefix="faultline-pg-"))
    server = DebianPostgres(folder)
    sockets = made(server, "primary-socket")
    data = folder / "primary"
    server.run("initdb", "-D", str(data), "-U", ADMIN, "-A", "trust", "--no-sync")
    server.start(data, sockets, settings)
    try:
        yield server, sockets
    finally:
        server.stop(data)
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def replica_of(server: DebianPostgres, primary: Path, more: Sequence[str] = ()) -> Iterator[Path]:
    """A running replica's folder of its socket."""
    sockets, data = made(server, "replica-socket"), server.folder / "replica"
    server.run(
        "pg_basebackup", "-D", str(data), "-h", str(primary), "-U", ADMIN, "-R", "-c", "fast", *more
    )
    server.start(data, sockets, {})
    try:
        yield sockets
    finally:
        server.stop(data)


def made(server: DebianPostgres, name: str) -> Path:
    """A folder that the server may write."""
    folder = server.folder / name
    folder.mkdir()
    folder.chmod(0o777)
    return folder
