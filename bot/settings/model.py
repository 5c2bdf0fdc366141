"""Settings of the language model: where it is, and what one investigation may take of it.
docs/model.md."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, SecretStr

from connectors.settings_types import Section, Url


class ModelSettings(Section):
    """The language model that investigates further and words the report: docs/model.md. Without
    `name` there is none."""

    name: str | None = None
    """The model's name at the provider."""
    api_key: SecretStr | None = None
    """Secret."""
    base_url: Url | None = None
    """For self-hosted servers. They get chat completions unless `api` says otherwise."""
    api: Literal["responses", "chat"] | None = None
    """Which API to speak. Unset: `responses`, or `chat` when `base_url` is set."""
    timeout_s: float = Field(default=40, gt=0)
    """The longest silence of the server, after which a response counts as lost."""
    max_output_tokens: int = Field(default=4000, ge=100)
    """Limit of one response, including reasoning."""
    investigates: bool = True
    """Whether it may use read-only tools before it words the report. `false`: it only words the
    report."""
    investigate_s: float = Field(default=150, gt=0)
    """The longest time for all its responses and tool calls together."""
    max_rounds: int = Field(default=12, ge=1, le=100)
    """Responses in one investigation, including the report."""
    max_tokens: int = Field(default=300_000, ge=1000)
    """Tokens in one investigation, including those sent again in each round."""
    price_per_million_input: float | None = Field(default=None, ge=0)
    """US dollars for a million tokens sent. Unset: no cost is calculated."""
    price_per_million_cached: float | None = Field(default=None, ge=0)
    """The same for tokens that the server has cached. Unset: as `price_per_million_input`."""
    price_per_million_output: float | None = Field(default=None, ge=0)
    """The same for tokens received. Unset: as `price_per_million_input`."""
    max_cost_usd: float = Field(default=1.0, gt=0)
    """US dollars that one investigation may cost, if prices are set."""
