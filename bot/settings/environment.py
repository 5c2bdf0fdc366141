"""What the environment says of the settings: `FAULTLINE_<SECTION>__<KEY>`.

Of a section that is given several times, `FAULTLINE_<SECTION>__<NAME>__<KEY>`. A secret may also
lie in a file, which the variable with `_FILE` at its end names. Which process needs which secret is
declared here once: for Terraform, Kubernetes and `faultline check`.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from pydantic import BaseModel, SecretStr

from faultline.analysis.errors import SettingsError

if TYPE_CHECKING:
    from faultline.bot.settings.settings import Settings

ENV_PREFIX = "FAULTLINE_"
FROM_FILE = "_file"
"""Ends the name of a variable that names a file with the secret, where the key itself does not end
so."""
MAX_SECRET_BYTES = 65_536


@dataclass(frozen=True)
class Variable:
    """One variable that is set. `instance` is the middle of its name, in small letters."""

    name: str
    section: str
    instance: str | None
    key: str
    value: str


def secret_variable(section: str, name: str, instance: str | None = None) -> str:
    """The environment variable of a key."""
    middle = f"{variable_part(instance)}__" if instance else ""
    return f"{ENV_PREFIX}{section}__{middle}{name}".upper()


def variable_part(name: str) -> str:
    """An instance's name as it stands in variables, in small letters."""
    # A variable's name allows neither hyphens nor dots.
    return re.sub(r"[-.]", "_", name).casefold()


def is_secret(section: type[BaseModel], name: str) -> bool:
    """Whether the key holds a secret, so that it may come from the environment only."""
    annotation = section.model_fields[name].annotation
    # Also `SecretStr | None`, and tuples of secrets.
    return annotation is SecretStr or any(
        a is SecretStr or SecretStr in get_args(a) for a in (annotation, *get_args(annotation))
    )


def sections_of_environment(environ: Mapping[str, str]) -> set[str]:
    """The sections that variables name, whether they exist or not."""
    return {section for _, section, _, _ in _set_variables(environ)}


def variables(
    environ: Mapping[str, str],
    sections: Mapping[str, type[BaseModel]],
    several: Container[str],
) -> Iterator[Variable]:
    """Every variable that is set; `several` are the sections that are given several times.

    Raises SettingsError for a file that holds no secret.
    """
    for name, section, rest, value in _set_variables(environ):
        instance = None
        key = rest
        if section in several:
            instance, mark, key = rest.partition("__")
            if not mark:
                problem = f"name the one of [[{section}]] that it is for, as in "
                raise SettingsError(name, problem + secret_variable(section, rest, "name"))
        secret = _named_by_file(key, sections.get(section))
        if secret is None:
            yield Variable(name, section, instance, key, value)
        else:
            direct = name.removesuffix(FROM_FILE.upper())
            if environ.get(direct):
                raise SettingsError(name, f"{direct} is also set: set only one of them")
            content = _secret_in(Path(value), name)
            yield Variable(name, section, instance, secret, content)


def _set_variables(environ: Mapping[str, str]) -> Iterator[tuple[str, str, str, str]]:
    """Name, section, rest of the name and value; an empty variable counts as not set."""
    for name, value in environ.items():
        section, mark, rest = name.removeprefix(ENV_PREFIX).lower().partition("__")
        if name.startswith(ENV_PREFIX) and mark and value:
            yield name, section, rest, value


def _named_by_file(key: str, model: type[BaseModel] | None) -> str | None:
    """The secret whose file this key names; None where it names none."""
    # A key may end that way by itself, such as `ca_file`.
    if model is None or key in model.model_fields or not key.endswith(FROM_FILE):
        return None
    secret = key.removesuffix(FROM_FILE)
    if secret in model.model_fields and is_secret(model, secret):
        return secret
    return None


def _secret_in(path: Path, key: str) -> str:
    """What a mounted file holds, without the line's end that editors add. The file's content is in
    no error."""
    try:
        with path.open("rb") as file:
            # One byte more than is allowed shows that the file is too long.
            content = file.read(MAX_SECRET_BYTES + 1)
        text = content.decode("utf-8").strip()
    except OSError as error:
        raise SettingsError(key, f"the file {path} cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise SettingsError(key, f"the file {path} is not UTF-8 text") from None
    if not text or len(content) > MAX_SECRET_BYTES:
        raise SettingsError(key, f"the file {path} is empty, or too long for a secret")
    return text


ProcessRole = Literal["server", "worker"]
"""The web process (`faultline serve --no-worker`) faces the internet. It holds what proves senders
and visitors and what opens the store; the secrets of the bots in Slack and Teams too, because
clicks and mentions are answered from there. Vendors are asked by workers alone, so a secret that is
not named here is theirs."""
PROVES_SENDERS = frozenset({"webhook_tokens", "webhook_secrets", "signing_secrets"})
"""Keys of any section whose secrets prove who sent a webhook."""
SERVER_ONLY = frozenset(
    {
        ("changes", "tokens"),
        ("heartbeat", "ping_url"),
        ("login", "client_secret"),
        ("server", "access_token"),
        ("slack", "app_token"),
        ("webhook", "tokens"),
    }
)
BOTH = frozenset(
    {
        ("msteams", "client_secret"),
        ("slack", "bot_token"),
        ("store", "database"),
        ("telemetry", "otlp_headers"),
    }
)


def needed_by(role: ProcessRole, section: str, key: str) -> bool:
    """Whether the process needs this secret."""
    if (section, key) in BOTH:
        return True
    of_server = key in PROVES_SENDERS or (section, key) in SERVER_ONLY
    return of_server if role == "server" else not of_server


def beyond_need(role: ProcessRole, settings: Settings) -> list[str]:
    """Variables of the secrets that these settings hold and the process does not need, sorted."""
    names = {name for section, key, name in _secrets(settings) if not needed_by(role, section, key)}
    return sorted(names)


def _secrets(settings: Settings) -> Iterator[tuple[str, str, str]]:
    for section in type(settings).model_fields:
        # Tables with names of the operator's choice are no instances, and hold no secret.
        for table in settings.instances(section):
            for key in type(table).model_fields:
                if is_secret(type(table), key) and getattr(table, key):
                    yield section, key, secret_variable(section, key, table.instance.name)
