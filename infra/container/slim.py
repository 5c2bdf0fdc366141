"""Takes out of an installation what the bot never loads: `slim.py SITE_PACKAGES PYTHON`.

Only the image is made smaller so, because there nobody imports anything else. What goes: symbols of
compiled libraries, descriptions of AWS services that are never asked, modules of Datadog's client
that no call of ours reaches, headers, stubs and tests of all packages, and the sources of other
people's packages once they are compiled. Our own keep theirs: the engine takes its version of the
workflows from them. PYTHON compiles, and the bot's packages are on the path of whoever runs this.
"""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from faultline.connectors.vendors.aws.operations import ACTIONS
from faultline.connectors.vendors.datadog import calls
from faultline.connectors.vendors.datadog.calls import Call

UNUSED = ("*.pyi", "*.pyx", "*.pxd", "*.h", "*.hpp", "*.c", "*.a", "*.lib", "RECORD")
"""For compilers, type checkers and pip."""
SECOND_BUILDS = ("rapidfuzz/**/*_avx2.*.so",)
"""The same code for newer processors. rapidfuzz takes the other where one is missing."""
FOLDERS = ("tests", "test", "testing")
NEEDED_FOLDERS = frozenset({"numpy/testing", "sqlalchemy/testing", "promql_parser/testing"})
"""Folders of these names that are part of what is imported."""
CREDENTIAL_SERVICES = frozenset({"s3", "sts", "sso", "sso-oidc"})
"""botocore itself asks these for credentials (botocore.credentials), and traces lie in S3."""
OUR_PACKAGES = ("faultline",)
"""The wheel's package."""
DATADOG = "datadog_api_client"
DATADOG_ROOTS = ("api_client", "configuration", "exceptions", "rest")
"""What connectors/vendors/datadog/session.py imports."""


def without_unused_files(site: Path) -> Iterator[Path]:
    """Files and folders that no program imports."""
    for pattern in UNUSED:
        yield from site.rglob(pattern)
    for pattern in SECOND_BUILDS:
        yield from site.glob(pattern)
    for name in FOLDERS:
        for folder in site.rglob(name):
            if folder.is_dir() and str(folder.relative_to(site)) not in NEEDED_FOLDERS:
                yield folder


def unasked_services(site: Path) -> Iterator[Path]:
    """Descriptions of AWS services beyond `ACTIONS`."""
    credential_services = CREDENTIAL_SERVICES | {service for service, _ in ACTIONS}
    for folder in (site / "botocore/data").glob("*/"):
        if folder.name not in credential_services:
            yield folder


def unreached_modules(site: Path) -> Iterator[Path]:
    """Modules of Datadog's client that none of our calls leads to, by any import anywhere."""
    roots = {f"{DATADOG}.{name}" for name in DATADOG_ROOTS}
    for member in vars(calls).values():
        if isinstance(member, Call):
            version, _, rest = member.api.partition(".")
            roots.add(f"{DATADOG}.{version}.api.{rest.partition('.')[0]}")
    reached = reachable(site, roots)
    for file in (site / DATADOG).rglob("*.py"):
        if file not in reached:
            yield file


def reachable(site: Path, roots: Iterable[str]) -> set[Path]:
    """The files of these modules, of the packages that they lie in and of all that they import."""
    paths: set[Path] = set()
    waiting = list(roots)
    while waiting:
        module = waiting.pop()
        file = _file_of(site, module)
        if file is None or file in paths:
            continue
        paths.add(file)
        if "." in module:
            waiting.append(module.rpartition(".")[0])
        waiting += _imports(file)
    return paths


def _file_of(site: Path, module: str) -> Path | None:
    place = site / module.replace(".", "/")
    for file in (place.with_suffix(".py"), place / "__init__.py"):
        if file.is_file():
            return file
    return None


def _imports(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            # `from package import name` may mean a module of that name.
            yield node.module
            yield from (f"{node.module}.{name.name}" for name in node.names)


def libraries(site: Path) -> Iterator[Path]:
    """Compiled libraries, also those that a wheel brings in a folder beside its package."""
    for file in site.rglob("*.so*"):
        if file.is_file() and not file.is_symlink():
            yield file


def megabytes(folder: Path) -> float:
    """What its files take, in MB."""
    return sum(file.lstat().st_size for file in folder.rglob("*") if file.is_file()) / 1e6


def _remove(place: Path) -> None:
    if place.is_dir():
        shutil.rmtree(place)
    else:
        place.unlink(missing_ok=True)


def compile_packages(site: Path, python: str, packages: Iterable[str]) -> None:
    """Bytecode for everything, beside our own sources and in place of the others. Raises
    CalledProcessError."""
    compiling = [python, "-m", "compileall", "-q", "-j", "0"]
    ours = [site / name for name in packages if (site / name).is_dir()]
    hidden = f"{re.escape(str(site))}/({'|'.join(re.escape(place.name) for place in ours)})/"
    subprocess.run([*compiling, "-b", "-x", hidden, str(site)], check=True)
    for file in site.rglob("*.pyc"):
        file.with_suffix(".py").unlink(missing_ok=True)
    subprocess.run([*compiling, *map(str, ours)], check=True)


def slim(site: Path, python: str, packages: Iterable[str]) -> None:
    """All of it. Raises CalledProcessError where a library cannot be stripped or a module not
    compiled."""
    for cache in list(site.rglob("__pycache__")):
        shutil.rmtree(cache)
    for places in (unasked_services, unreached_modules, without_unused_files):
        for place in list(places(site)):
            _remove(place)
    for file in libraries(site):
        # Not in place: some of them are loaded by whoever runs this.
        stripped = file.with_name(f"{file.name}.stripped")
        subprocess.run(["strip", "--strip-unneeded", "-o", str(stripped), str(file)], check=True)
        stripped.replace(file)
    compile_packages(site, python, packages)


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    before = megabytes(folder)
    slim(folder, sys.argv[2], OUR_PACKAGES)
    sys.stdout.write(f"{before:.0f} MB of packages, {megabytes(folder):.0f} MB are left\n")
