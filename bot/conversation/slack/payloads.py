"""What Slack tells of a click or a form: https://docs.slack.dev/reference/interaction-payloads

What is missing or of the wrong type is empty; text is cleaned and cut, because whoever clicks also
writes.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from faultline.bot.intake.payload_fields import Line, Payload, Rows, Table, Text, plain, single_line

MAX_INPUT = 3_000
MAX_NAME = 80


class Chosen(Payload):
    """The option of a menu."""

    value: Text = ""


class Action(Payload):
    """One click. `action_ts` is equal each time Slack tells of the same click."""

    action_id: Line = ""
    action_ts: Line = ""
    value: Text = ""
    selected_option: Table[Chosen] = Field(default_factory=Chosen)

    @property
    def chosen(self) -> str:
        """The button's value, or that of the option."""
        return self.value or self.selected_option.value


class User(Payload):
    """Who clicked; `team_id` is the workspace that the account belongs to."""

    id: Line = ""
    team_id: Line = ""
    username: Line = ""
    name: Line = ""

    @property
    def display_name(self) -> str:
        """`ann (U0ANN)`: a name people know, and the id that cannot be chosen."""
        name = single_line(self.name or self.username, MAX_NAME)
        return f"{name} ({self.id})" if name and self.id else name or self.id or "somebody"


class Team(Payload):
    """The workspace that a click came from."""

    id: Line = ""


class Channel(Payload):
    """Where it was clicked."""

    id: Line = ""


class Container(Payload):
    """What it was clicked on."""

    channel_id: Line = ""
    message_ts: Line = ""
    thread_ts: Line = ""


class ClickedMessage(Payload):
    """The message under the button."""

    ts: Line = ""
    thread_ts: Line = ""


def _state(value: Any) -> dict[str, dict[str, Any]]:
    # Whatever has another shape is as good as missing.
    values = value.get("values") if isinstance(value, dict) else None
    rows = values.items() if isinstance(values, dict) else ()
    return {str(k): v for k, v in rows if isinstance(v, dict)}


class ClickedView(Payload):
    """The modal or Home tab under the button, or the form that was sent."""

    id: Line = ""
    type: Line = ""
    hash: Line = ""
    callback_id: Line = ""
    private_metadata: Text = ""
    app_installed_team_id: Line = ""
    state: Annotated[dict[str, dict[str, Any]], BeforeValidator(_state)] = Field(
        default_factory=dict
    )

    def field_text(self, block_id: str) -> str:
        """What was written or chosen in a field; "" for nothing."""
        field_state = next(
            (v for v in self.state.get(block_id, {}).values() if isinstance(v, dict)), {}
        )
        option = field_state.get("selected_option")
        return plain(
            option.get("value") if isinstance(option, dict) else field_state.get("value"), MAX_INPUT
        )


class Interaction(Payload):
    """The body of a click or a form."""

    type: Line = ""
    trigger_id: Line = ""
    user: Table[User] = Field(default_factory=User)
    team: Table[Team] = Field(default_factory=Team)
    channel: Table[Channel] = Field(default_factory=Channel)
    container: Table[Container] = Field(default_factory=Container)
    message: Table[ClickedMessage] = Field(default_factory=ClickedMessage)
    view: Table[ClickedView] = Field(default_factory=ClickedView)
    actions: Rows[Action] = ()

    @property
    def action(self) -> Action:
        """The click; Slack sends one at a time."""
        return self.actions[0] if self.actions else Action()

    @property
    def installed_in(self) -> frozenset[str]:
        """The workspace whose installation of the app was clicked. With a form that was opened from
        a shared channel, `team` may be that of whoever clicked."""
        return frozenset({self.view.app_installed_team_id or self.team.id} - {""})

    @property
    def place(self) -> tuple[str, str]:
        """Channel and thread of the message under the button; empty where there is none."""
        # Inside a thread its first message counts, otherwise the message itself.
        ts = (
            self.message.thread_ts
            or self.container.thread_ts
            or self.message.ts
            or self.container.message_ts
        )
        return self.channel.id or self.container.channel_id, ts
