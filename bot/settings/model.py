"""Settings of the language model: where it is, and what one investigation may take of it.
docs/model.md."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, SecretStr, model_validator

from faultline.connectors.shared.settings.settings_types import Section, Url


class ModelSettings(Section):
    """The language model that investigates further and words the report: docs/model.md. Without
    `name` there is none."""

    name: str | None = None
    """The model's name at the provider."""
    api_key: SecretStr | None = None
    """Secret."""
    base_url: Url | None = None
    """For self-hosted servers and other providers. They get chat completions unless `api` says
    otherwise."""
    api: Literal["responses", "chat", "anthropic"] | None = None
    """Which API to speak. Unset: `responses`, or `chat` when `base_url` is set."""
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = (
        None
    )
    """How hard a reasoning model thinks, where the server takes that. Unset: as the server has
    it."""
    context_tokens: int | None = Field(default=None, ge=4000)
    """Size of the server's context, prompt and response together. Unset: as the server says. Set it
    for Ollama, which cuts a prompt that is too long without saying so."""
    timeout_s: float = Field(default=40, gt=0)
    """The longest silence of the server, after which a response counts as lost."""
    max_output_tokens: int = Field(default=4000, ge=100)
    """Limit of one response, including reasoning."""
    investigates: bool = True
    """Whether it may use read-only tools before it words the report. `false`: it only words the
    report."""
    queries: bool = True
    """Whether it may ask connectors in their own query languages. `false`: only what the other
    tools ask."""
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
    price_per_million_cache_write: float | None = Field(default=None, ge=0)
    """The same for tokens that the server puts into its cache, where it charges for that. Unset: as
    `price_per_million_input`."""
    price_per_million_output: float | None = Field(default=None, ge=0)
    """The same for tokens received. Unset: as `price_per_million_input`."""
    max_cost_usd: float = Field(default=1.0, gt=0)
    """US dollars that one investigation may cost, if prices are set."""
    max_tokens_per_day: int | None = Field(default=None, ge=1000)
    """Tokens of all investigations and questions of a day (UTC), over all workers. Unset: no
    limit."""
    max_cost_usd_per_day: float | None = Field(default=None, gt=0)
    """The same in US dollars. Needs prices."""
    max_tokens_per_channel_day: int | None = Field(default=None, ge=1000)
    """The same for each channel."""
    max_cost_usd_per_channel_day: float | None = Field(default=None, gt=0)
    """The same for each channel, in US dollars. Needs prices."""
    cloud: Literal["azure"] | None = None
    """`azure`: sign in with a token of Microsoft Entra instead of `api_key`."""
    azure_tenant_id: str | None = None
    """The directory's id, for `azure_client_secret`."""
    azure_client_id: str | None = None
    """The application's id, or that of a user-assigned managed identity."""
    azure_client_secret: SecretStr | None = None
    """Secret. The application's client secret. Without it the workload identity of the pod or the
    managed identity of the machine is used."""
    azure_audience: str = "https://ai.azure.com"
    """Whom the token is for. Older resources want `https://cognitiveservices.azure.com`."""
    azure_login_url: Url = "https://login.microsoftonline.com"
    """Microsoft Entra. Change it for other clouds."""
    azure_identity_url: Url = "http://169.254.169.254"
    """Where a machine gets its managed identity's token."""

    @model_validator(mode="after")
    def _fits_together(self) -> ModelSettings:
        priced = self.price_per_million_input is not None
        if (self.max_cost_usd_per_day or self.max_cost_usd_per_channel_day) and not priced:
            raise ValueError("a limit in US dollars for a day needs price_per_million_input")
        if self.azure_client_secret and not (self.azure_tenant_id and self.azure_client_id):
            raise ValueError("azure_client_secret needs azure_tenant_id and azure_client_id")
        if self.cloud == "azure" and (self.base_url is None or self.api == "anthropic"):
            raise ValueError('cloud = "azure" needs base_url (.../openai/v1) and OpenAI\'s APIs')
        return self
