"""MariaDB of Debian, unpacked, with and without the tables that an installation makes."""

from __future__ import annotations

import getpass
import socket
import subprocess
from pathlib import Path

from faultline.loopback.bot_process import free_port
from tests.connectors.real_servers import Programs
from tests.debian_tools import debian_root

TABLES = ("mysql_system_tables.sql", "mysql_performance_tables.sql")
MADE_S = 120


def start_mariadb(
    running: Programs, name: str, statements: str, *options: str, has_users: bool = False
) -> int:
    """The port of one that has carried out these statements.

    `has_users`: with the tables of privileges, which take a second to make. Without them
    `--skip-grant-tables` has to be among the options.
    """
    root = debian_root("mariadb-server-core", "libaio1", "libnuma1", "liburing2")
    [libraries] = root.glob("usr/lib/*-linux-gnu*")
    environment = {"LD_LIBRARY_PATH": str(libraries)}
    port = free_port()
    data = running.folder / name
    data.mkdir()
    first = running.folder / f"{name}.sql"
    # One statement a line.
    lines = statements.replace("\n", " ").split(";")
    first.write_text("".join(f"{line.strip()};\n" for line in lines if line.strip()))
    program = [
        str(root / "usr/sbin/mariadbd"),
        "--no-defaults",
        f"--user={getpass.getuser()}",
        f"--datadir={data}",
        f"--lc-messages-dir={root}/usr/share/mysql",
        f"--character-sets-dir={root}/usr/share/mysql/charsets",
        "--innodb-flush-log-at-trx-commit=0",
    ]
    if has_users:
        _make_tables(program, root / "usr/share/mysql", environment)
    running.start(
        *program,
        f"--socket={data}/socket",
        "--bind-address=127.0.0.1",
        f"--port={port}",
        f"--server-id={port}",
        "--log-bin=changes",
        f"--init-file={first}",
        *options,
        env=environment,
    )
    running.until(lambda: _greets(port), f"MariaDB {name}")
    return port


def _make_tables(program: list[str], shared: Path, environment: dict[str, str]) -> None:
    """As mariadb-install-db does."""
    told = ["CREATE DATABASE mysql;\nUSE mysql;\n"]
    told += [(shared / name).read_text() for name in TABLES]
    subprocess.run(
        [*program, "--bootstrap"],
        input="".join(told),
        text=True,
        env=environment,
        capture_output=True,
        check=True,
        timeout=MADE_S,
    )


def _greets(port: int) -> bool:
    """A server of MySQL's protocol speaks first."""
    with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
        return bool(connection.recv(1))
