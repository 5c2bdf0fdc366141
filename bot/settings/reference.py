"""Writes docs/configuration.md from the settings themselves: `python -m
faultline.bot.settings.reference`."""

from __future__ import annotations

import ast
import inspect
import json
import re
import textwrap
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from faultline.bot.settings import (
    DEFAULT_FILE,
    NAMED_TABLES,
    Settings,
    is_secret,
    secret_variable,
    sections_in_order,
    sections_that_repeat,
)
from faultline.bot.settings.settings import InstanceTable
from faultline.connectors.shared.settings.connector_settings import (
    ConnectorSettings,
    SelfHostedSettings,
)

# Keys that many sections inherit are explained once. `url` and `token` differ in what they lead to.
SHARED_KEYS = frozenset(SelfHostedSettings.model_fields) - {"url", "token"}
PAGE = Path(__file__).resolve().parents[2] / "docs" / "configuration.md"

HEAD = f"""# Configuration

Settings come from `{DEFAULT_FILE}` in the working directory, or the file named by `--config` or `FAULTLINE_CONFIG`.
Without a file the bot runs on loopback with embedded databases.

- **Environment.** `FAULTLINE_<SECTION>__<KEY>` sets a key and wins over the file. That works for every key outside of
  `services`, `jobs`, `teams` and `watch`, except for tables and lists of tables within a section.
- **Secrets** come only from the environment. A secret in the file stops the start.
  `FAULTLINE_<SECTION>__<KEY>_FILE` names a file that holds a secret.

```toml
[server]
public_url = "https://faultline.example.com"

[slack]
channel = "C0123456789"

[prometheus]
url = "http://prometheus.monitoring:9090"

[services.checkout]
aliases = ["checkout-api"]
depends_on = ["payments", "cart"]
```

`python -m faultline.bot.settings.reference` writes this page from the code.
"""  # noqa: E501


SEVERAL = """
## Several of each

For one Prometheus per cluster, or two Datadog organisations, write the section as a list of tables, each with a `name`
and what it `covers`. A single table needs neither.

```toml
[[prometheus]]
name = "prod-eu"
url = "https://prometheus.eu.example.com"
covers = { cluster = "prod-eu" }

[[prometheus]]
name = "prod-us"
url = "https://prometheus.us.example.com"
covers = { cluster = "prod-us", services = ["checkout", "payments-*"] }
```

| key | default | meaning |
|---|---|---|
ROWS

- **Secrets** carry the name between section and key, in capitals, with `_` for `-` and `.`:
  `FAULTLINE_PROMETHEUS__PROD_EU__TOKEN`, or `FAULTLINE_PROMETHEUS__PROD_EU__TOKEN_FILE`.
- **Queries** go to every instance except those that cover another value of one of the alert's labels, or none of the
  services in scope. `cluster`, `env` and `region` are compared under all their usual names.
- **Evidence, gaps and `faultline check`** name the instance: `prometheus prod-eu`. If it covers a single
  value of a label, rows without the label get it, so that places can be compared. Without such a label, series get the
  label `source`. A service that one instance knows is not a gap of the others.
- **Alerts** that arrive with an instance's webhook secret get its labels too. An alert's rule is looked up first
  where the alert's links lead.
- **Rates, circuits and budgets** are separate for each instance.
- **Slack workspaces and PagerDuty accounts** get answers too: [several workspaces](slack.md#several-workspaces),
  [several accounts](connectors/pagerduty.md#several-accounts).
- **Links** of Loki and Tempo go to the Grafana of the same name, or else to the only one that may cover the same place.

Sections that can be given several times:

```text
REPEATED
```
"""  # noqa: E501


SHARED = """
## Keys of every connector

The section of each connector (`[prometheus]`, `[datadog]`, `[aws]`, ...) also has:

| key | default | meaning |
|---|---|---|
CONNECTOR

## Keys of self-hosted servers

SECTIONS also have:

| key | default | meaning |
|---|---|---|
SERVER
"""


def page() -> str:
    """The whole page as Markdown."""
    sections = [HEAD, _several(), _shared()]
    for name, section in _sections():
        title = f"{name}.NAME" if name in NAMED_TABLES else name
        # A docstring that is wrapped in the source is one paragraph on the page.
        about = _linked(section.__doc__ or "")
        head = f"\n## [{title}]\n\n{about}\n\n| key | default | meaning |\n|---|---|---|\n"
        # The keys of a section that are explained once for all, unless it declares them again.
        shared: frozenset[str] = frozenset()
        if issubclass(section, SelfHostedSettings):
            shared = SHARED_KEYS
        elif issubclass(section, ConnectorSettings):
            shared = frozenset(ConnectorSettings.model_fields)
        sections.append(
            head + _rows(name, section, without=shared - section.__annotations__.keys()) + "\n"
        )
    return "".join(sections)


def _sections() -> Iterator[tuple[str, type[BaseModel]]]:
    for name, field in sections_in_order(Settings):
        section = NAMED_TABLES.get(name, field.annotation)
        assert isinstance(section, type)
        assert issubclass(section, BaseModel)
        yield name, section


def _several() -> str:
    """How a section is given several times, and which can be."""
    repeated = textwrap.fill(", ".join(sections_that_repeat(Settings)), 100)
    return SEVERAL.replace("ROWS", _rows("name", InstanceTable)).replace("REPEATED", repeated)


def _shared() -> str:
    """The keys that many sections have, once."""
    names = [name for name, section in _sections() if issubclass(section, SelfHostedSettings)]
    sections = ", ".join(f"`[{name}]`" for name in names)
    model_fields = frozenset(SelfHostedSettings.model_fields) - SHARED_KEYS
    inherited = model_fields | frozenset(ConnectorSettings.model_fields)
    server = _rows(names[0], SelfHostedSettings, without=inherited)
    connector = _rows(names[0], ConnectorSettings)
    shared = SHARED.replace("CONNECTOR", connector).replace("SERVER", server)
    return shared.replace("SECTIONS", sections)


def _rows(name: str, section: type[BaseModel], *, without: frozenset[str] = frozenset()) -> str:
    # What stands below each field in the source, a section's parents included.
    meanings: dict[str, str] = {}
    for model in reversed(section.__mro__):
        if issubclass(model, BaseModel) and model is not BaseModel:
            source = textwrap.dedent(inspect.getsource(model))
            meanings |= _docstrings_in(ast.parse(source).body[0])
    rows: list[str] = []
    for key, info in section.model_fields.items():
        if key not in without:
            rows.append(_row(name, key, section, info, meanings.get(key, "")))
    # Parents first, so that a section's own words replace theirs.
    return "\n".join(rows)


def _docstrings_in(node: ast.stmt) -> dict[str, str]:
    assert isinstance(node, ast.ClassDef)
    docstrings: dict[str, str] = {}
    for field, below in pairwise(node.body):
        match field, below:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                docstrings[name] = _linked(text)
    return docstrings


def _linked(text: str) -> str:
    """One paragraph, with links to the pages it names."""
    return re.sub(r"docs/([\w/-]+)\.md", r"[\1](\1.md)", " ".join(text.split()))


def _row(section: str, key: str, model: type[BaseModel], info: FieldInfo, meaning: str) -> str:
    if section not in NAMED_TABLES and is_secret(model, key):
        key = f"`{secret_variable(section, key)}`"
        meaning = meaning.removeprefix("Secret.").strip() or "Secret."
    else:
        key = f"`{key}`"
    value = info.default
    if value is None or value is PydanticUndefined or value == ():
        default = ""
    else:
        default = f"`{value if isinstance(value, Path) else json.dumps(value)}`"
    return f"| {key} | {default} | {meaning} |"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
