"""Slack's client for the Web API, through the proxy that the environment names for its address."""

from __future__ import annotations

from typing import Any

from slack_sdk.web.async_client import AsyncWebClient

from faultline.connectors.shared.transport.environment_trust import proxy_of_environment


class SlackWebClient(AsyncWebClient):
    """The SDK's own takes `HTTPS_PROXY`, else `HTTP_PROXY`, for every address: also for one that
    `NO_PROXY` names."""

    def __init__(self, api_url: str, **options: Any) -> None:
        super().__init__(base_url=f"{api_url}/", **options)
        self.proxy = proxy_of_environment(api_url)
