"""What an agent gets of one answered investigation, kept as text: the tools and their arguments, a
call of each, the refusals, the prompts and the resources."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.bot.mcp.stored import Stored, said, text_of
from tests.kept import assert_kept, without_now

if TYPE_CHECKING:
    from mcp import Client

FILE = Path(__file__).with_name("results.txt")
CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("recent", {"most": 1}),
    ("wait", {"wait_s": 0}),
    ("answer", {}),
    ("findings", {}),
    ("findings", {"about": "LATENCY", "skip": 1}),
    ("evidence", {"finding": "F1"}),
    ("evidence", {"finding": " F2 "}),
    ("evidence", {"finding": "L1"}),
    ("series", {"service": "checkout"}),
    ("logs", {"service": "checkout"}),
    ("logs", {"show": "lines", "level": "error"}),
    ("traces", {"service": "checkout"}),
    ("request", {"trace_id": "none"}),
    ("changes", {}),
    ("topology", {"service": "checkout"}),
    ("read", {"file": "r1"}),
    ("trace_doctor", {}),
    ("verify", {}),
)
_ID = re.compile(r"20\d{6}-\d{6}-[0-9a-f]{6}")


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[Stored]:
    opened = Stored(tmp_path)
    yield opened
    opened.engine.dispose()


def shown(title: str, text: str) -> str:
    """Under its title; times and ids of this run are left out."""
    return without_now(_ID.sub("ID", f"# {title}\n{text}\n"))


def test_an_agent_gets_what_is_kept(stored: Stored) -> None:
    investigation = stored.answered()

    async def everything(client: Client) -> list[str]:
        texts = []
        for tool in (await client.list_tools()).tools:
            schema = json.dumps(tool.input_schema, indent=1)
            texts.append(shown(f"tool {tool.name}", f"{tool.title}\n{tool.description}\n{schema}"))
        for prompt in (await client.list_prompts()).prompts:
            arguments = {argument.name: "checkout" for argument in prompt.arguments or ()}
            content = (await client.get_prompt(prompt.name, arguments)).messages[0].content
            assert content.type == "text"
            texts.append(shown(f"prompt {prompt.name}", f"{prompt.description}\n{content.text}"))
        for resource in (await client.list_resources()).resources:
            texts.append(
                shown(f"resource {resource.uri}", f"{resource.title} {resource.mime_type}")
            )
            if str(resource.uri).endswith((".md", "answer.json")):
                texts.append(shown("its text", text_of(await client.read_resource(resource.uri))))
        for tool_name, arguments in CALLS:
            whose = {} if tool_name == "recent" else {"investigation": investigation}
            result = await client.call_tool(tool_name, whose | arguments)
            text = said(result)
            if result.structured_content is not None:
                text = json.dumps(result.structured_content, indent=1)
            texts.append(shown(f"{tool_name} {arguments}", text))
        return texts

    assert_kept(FILE, "\n".join(stored.told(everything)))
