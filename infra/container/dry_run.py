"""Carries out the Dockerfile without a container engine: its own lines, in a Debian tree made by
debootstrap.

As root, with debootstrap installed: `python infra/container/dry_run.py FOLDER`. Then the demo runs
in the result as it would on a cluster: as user 10001, every file system read-only but /tmp and
/state. Prints sizes. With `lab` after FOLDER it carries out the stage of infra/compose instead, and
opens its shop. What it cannot show is the build stage's base image itself, which debootstrap makes
from the same packages, and whatever an engine adds.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = Path(__file__).with_name("Dockerfile")
SUITE = "trixie"
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
OURS = "/etc/authorities-of-this-machine.crt"
"""Beside those of Debian, which the build installs itself."""
ENVIRON = {
    "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
    "SSL_CERT_FILE": OURS,
    "PIP_CERT": OURS,
}
LARGEST = 12
LOADED_LATE = """
import importlib
import bz2, ctypes, hashlib, lzma, sqlite3, ssl, uuid, zoneinfo
import alembic, backports.zstd, isal.isal_zlib, joserfc, numpy.random, obstore, openai, pdpyras
import polars, psycopg, prometheus_client, promql_parser, re2, resvg_py, slack_bolt, uvicorn
import uvloop, yaml
import faultline.bot.runtime.otlp
from faultline.connectors.vendors.aws.operations import ACTIONS
from faultline.connectors.vendors.aws.session import aws_client, boto_session
from faultline.connectors.vendors.datadog import calls
session = boto_session()
for service in {service for service, _ in ACTIONS}:
    aws_client(session, service, "eu-west-1", None, {})
for one in vars(calls).values():
    if isinstance(one, calls.Call):
        module, _, api = one.api.rpartition(".")
        client = f"datadog_api_client.{module.replace('.', '.api.', 1)}"
        getattr(getattr(importlib.import_module(client), api), one.name)
assert zoneinfo.ZoneInfo("Asia/Tokyo") and ssl.create_default_context().get_ca_certs()
print("what is only loaded when a vendor is asked can be loaded")
"""
OTHER_TARGETS = ("lab",)
WRITABLE = ("/tmp", "/state")  # noqa: S108  within the image


@dataclass
class Stage:
    """One FROM of the Dockerfile, carried out."""

    root: Path
    environ: dict[str, str] = field(default_factory=lambda: dict(ENVIRON))
    folder: str = "/"
    user: str = "0:0"
    entry: list[str] = field(default_factory=list)

    def run(self, command: list[str], *, user: str = "0:0", read_only: bool = False) -> None:
        """A command within, with the network of this machine. Raises CalledProcessError."""
        uid, gid = user.split(":")
        mounts = f"mkdir -p {self.root}/proc {self.root}/dev; "
        mounts += f"mount -t proc proc {self.root}/proc; mount --rbind /dev {self.root}/dev; "
        if read_only:
            scratch = " ".join(f"{self.root}{place}" for place in WRITABLE)
            mounts += (
                f"mount --bind {self.root} {self.root}; mount -o remount,ro,bind {self.root}; "
                f"mount -t proc proc {self.root}/proc; mount --rbind /dev {self.root}/dev; "
                f"for one in {scratch}; do mount -t tmpfs -o mode=0700,uid={uid},gid={gid} tmpfs "
                f"$one; done; "
            )
        # The result has no shell to change the folder with.
        program = "import os, sys; os.chdir(sys.argv[1]); os.execvp(sys.argv[2], sys.argv[2:])"
        within = ["/usr/bin/python3", "-c", program, self.folder, *command]
        if not (self.root / "usr/bin/python3").exists():
            within = ["sh", "-c", f"cd {shlex.quote(self.folder)} && exec {shlex.join(command)}"]
        inside = ["/usr/sbin/chroot", f"--userspec={user}", "--groups=", str(self.root)]
        variables = [f"{key}={value}" for key, value in self.environ.items()]
        alone = ["/usr/bin/setpriv", "--no-new-privs", "/usr/bin/env", "-i", *variables]
        chroot = shlex.join([*alone, *inside, *within])
        script = ["unshare", "--mount", "--pid", "--fork", "sh", "-ec", mounts + "exec " + chroot]
        subprocess.run(script, check=True)

    def run_instruction(self, rest: str) -> None:
        """RUN, as root."""
        self.run(["sh", "-ec", rest])

    def set_variables(self, rest: str) -> None:
        """ENV."""
        for key, value in re.findall(r'(\w+)=("[^"]*"|\S+)', rest):
            self.environ[key] = value.strip('"').replace("$PATH", self.environ["PATH"])

    def set_folder(self, rest: str) -> None:
        """WORKDIR."""
        self.folder = rest
        (self.root / rest.lstrip("/")).mkdir(parents=True, exist_ok=True)

    def set_user(self, rest: str) -> None:
        """USER."""
        self.user = rest

    def set_entry(self, rest: str) -> None:
        """ENTRYPOINT."""
        self.entry = json.loads(rest)

    def leave_out(self, rest: str) -> None:
        """ADD."""
        sys.stdout.write(f"not carried out, for it needs the internet: ADD {rest}\n")


WITHIN_STAGE: dict[str, Callable[[Stage, str], None]] = {
    "ADD": Stage.leave_out,
    "ENTRYPOINT": Stage.set_entry,
    "ENV": Stage.set_variables,
    "RUN": Stage.run_instruction,
    "USER": Stage.set_user,
    "WORKDIR": Stage.set_folder,
}
"""Instructions that need no other stage."""


def instructions() -> Iterator[tuple[str, str]]:
    """Word and rest of each instruction, comments and line ends taken out."""
    lines = [
        line
        for line in DOCKERFILE.read_text(encoding="utf-8").splitlines()
        if not line.startswith("#")
    ]
    for line in re.sub(r"\\\n\s*", " ", "\n".join(lines)).splitlines():
        if line.strip():
            word, _, rest = line.strip().partition(" ")
            yield word, rest.strip()


def build(work: Path, target: str = "") -> Stage:
    """The instructions of what the target needs, in turn; without one, the last stage."""
    base = _base(work)
    stages: dict[str, Stage] = {}
    stage = Stage(base)
    skipped = False
    for number, (word, rest) in enumerate(instructions()):
        if word == "FROM":
            if target and target in stages:
                break
            source, _, name = rest.partition(" AS ")
            name = name or f"stage-{number}"
            # Another target's stage: nothing is built from it.
            skipped = name in OTHER_TARGETS and name != target
            if skipped:
                continue
            stage = stages[name] = Stage(work / name)
            shutil.rmtree(stage.root, ignore_errors=True)
            stage.root.mkdir(parents=True)
            if rest.startswith("scratch"):
                stage.environ = {"PATH": ENVIRON["PATH"]}
            else:
                before = stages.get(source, Stage(base))
                stage.environ, stage.folder = dict(before.environ), before.folder
                subprocess.run(["cp", "-a", "-T", str(before.root), str(stage.root)], check=True)
        elif skipped:
            continue
        elif word == "COPY":
            _copy(stage, stages, rest)
        elif word in WITHIN_STAGE:
            WITHIN_STAGE[word](stage, rest)
    return stage


def _base(work: Path) -> Path:
    base = work / "base"
    if not (base / "usr/bin/apt-get").exists():
        work.mkdir(parents=True, exist_ok=True)
        subprocess.run(
            ["debootstrap", "--variant=minbase", SUITE, str(base)],
            check=True,
            stdout=subprocess.DEVNULL,
        )
    for name in ("resolv.conf", "hosts"):
        shutil.copyfile(f"/etc/{name}", base / "etc" / name)
    shutil.copyfile(CERTIFICATES, base / OURS.lstrip("/"))
    return base


def _copy(stage: Stage, stages: Mapping[str, Stage], rest: str) -> None:
    """COPY from the repository, without what git ignores, or from an earlier stage."""
    words = rest.split()
    source = (
        stages[words.pop(0).removeprefix("--from=")].root
        if words[0].startswith("--from=")
        else None
    )
    *names, target = words
    into = stage.root / os.path.join(stage.folder, target).lstrip("/")
    for name in names:
        if source is not None:
            subprocess.run(
                ["cp", "-a", "-T", str(source / name.lstrip("/")), str(into)], check=True
            )
            continue
        listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", name]
        git_files = subprocess.run(listing, cwd=ROOT, capture_output=True, text=True, check=True)
        files = [
            Path(file) for file in git_files.stdout.split("\0") if file and (ROOT / file).exists()
        ]
        folder = (ROOT / name).is_dir()
        for file in files:
            place = (
                into / file.relative_to(name)
                if folder
                else into / file.name
                if target.endswith("/")
                else into
            )
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / file, place)


def megabytes(folder: Path) -> float:
    """What a folder's files take, in MB."""
    return (
        sum(p.lstat().st_size for p in folder.rglob("*") if p.is_file() and not p.is_symlink())
        / 1e6
    )


def _open_shop(stage: Stage) -> None:
    """Start the shop with its stores, until its page answers."""
    program = (
        "import subprocess, sys, time, urllib.request\n"
        "shop = subprocess.Popen([sys.executable, *sys.argv[1:]])\n"
        "while shop.poll() is None:\n"
        "    time.sleep(1)\n"
        "    try:\n"
        "        print(urllib.request.urlopen('http://127.0.0.1:8000/healthz').read().decode())\n"
        "        break\n"
        "    except OSError:\n"
        "        pass\n"
        "shop.terminate()\n"
        "sys.exit(shop.wait())\n"
    )
    python, *arguments = stage.entry
    arguments += ["--room", "/shop", "--prometheus", "http://127.0.0.1:9090"]
    sys.stdout.write(f"the image: {megabytes(stage.root):.0f} MB of files\n")
    sys.stdout.flush()
    stage.run([python, "-c", program, *arguments], user=stage.user)
    sys.stdout.write("the shop opened and closed\n")


def main() -> None:
    """Build, try, and say what the result weighs."""
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    if sys.argv[2:]:
        _open_shop(build(Path(sys.argv[1]).resolve(), sys.argv[2]))
        return
    stage = build(Path(sys.argv[1]).resolve())
    sys.stdout.write(f"the image: {megabytes(stage.root):.0f} MB of files\n")
    packages = stage.root / "app/.venv/lib"
    sizes = {
        p.name: megabytes(p)
        for site in packages.glob("python*/site-packages")
        for p in site.iterdir()
        if p.is_dir()
    }
    sys.stdout.write(f"/app: {megabytes(stage.root / 'app'):.0f} MB; the largest packages:\n")
    for name, size in sorted(sizes.items(), key=lambda item: -item[1])[:LARGEST]:
        sys.stdout.write(f"  {name}: {size:.0f} MB\n")
    sys.stdout.flush()
    for arguments in (["--help"], ["demo", "--exit"]):
        stage.run([*stage.entry, *arguments], user=stage.user, read_only=True)
    late = ["/app/.venv/bin/python", "-c", LOADED_LATE]
    stage.run(late, user=stage.user, read_only=True)
    try:
        program = "open('/app/x', 'w')"
        stage.run(["/usr/bin/python3", "-c", program], user="0:0", read_only=True)
    except subprocess.CalledProcessError:
        sys.stdout.write("the root file system is read-only, and the demo ran\n")
    else:
        sys.exit("the root file system could be written: this has shown nothing")


if __name__ == "__main__":
    main()
