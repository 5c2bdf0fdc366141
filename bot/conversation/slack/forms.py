"""The forms behind `Wrong` and `Mute this alert`, and what is read back from them. Pure.

The metadata of a form names the investigation and the message under it: `<investigation> <channel>
<thread>`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from faultline.analysis.kinds.finding_details import change_named
from faultline.analysis.vocabulary import Diagnosis
from faultline.bot.answer.foreign_text import single_line
from faultline.bot.answer.targets.slack.blocks import (
    MAX_INPUT,
    MAX_METADATA,
    MAX_OPTIONS,
    MAX_PLACEHOLDER,
    Block,
    context,
    field,
    modal,
    option,
    paragraph,
    plain,
)
from faultline.bot.conversation.slack.payloads import ClickedView, Interaction
from faultline.bot.store.store import StoredInvestigation
from faultline.bot.store.suppressed_alerts import LONGEST

WRONG_FORM, MUTE_FORM = "faultline_wrong_form", "faultline_mute_form"
SUSPECT, CAUSE = "suspect", "cause"
FOR, REASON, WHICH = "for", "reason", "which"
MAX_SUSPECTS = 40
"""A longer menu is not read; the field below takes any words."""
DURATIONS: Mapping[str, tuple[str, timedelta]] = {
    "1h": ("1 hour", timedelta(hours=1)),
    "8h": ("8 hours", timedelta(hours=8)),
    "1d": ("1 day", timedelta(days=1)),
}
UNTIL_RESOLVED = "resolved"
THIS, ALL = "this", "all"


@dataclass(frozen=True)
class FormFor:
    """What a form is about: an investigation, and the message that its button stands under."""

    investigation_id: str
    channel: str = ""
    thread: str = ""

    def metadata(self) -> str:
        """As a form carries it."""
        return f"{self.investigation_id} {self.channel} {self.thread}"[:MAX_METADATA]

    @classmethod
    def read(cls, metadata: str) -> FormFor:
        """From what a form carried."""
        # Pad it: channel and thread may be missing.
        investigation, channel, thread = [*metadata.split(" "), "", "", ""][:3]
        return cls(investigation, channel, thread)


def form_for(click: Interaction, investigation: StoredInvestigation) -> FormFor:
    """What a form is about that a click under an answer opens."""
    channel, thread = click.place
    return FormFor(investigation.id, channel, thread)


def suspects_of(diagnosis: Diagnosis) -> list[str]:
    """What may have been the cause instead: other causes, changes, then whatever a finding is
    about, each once."""
    ranked = sorted(diagnosis.causes, key=lambda c: c.rank)
    named = [_named(c.subject, c.change) for c in ranked]
    changes = [_named(f.subject, change) for f in diagnosis.findings if (change := change_named(f))]
    subjects = [f.subject for f in sorted(diagnosis.findings, key=lambda f: -f.strength)]
    # The first cause is what the answer says already.
    lines = (single_line(s, 75) for s in (*named[1:], *changes, *subjects))
    answered = {single_line(s, 75) for s in named[:1]}
    return [s for s in dict.fromkeys(lines) if s and s not in answered][:MAX_SUSPECTS]


def wrong_modal(
    about: FormFor,
    investigation: StoredInvestigation,
    suspects: Sequence[str],
    recorded_cause: str = "",
) -> Block:
    """Which cause was it? Both fields may stay empty: that the answer was wrong is worth knowing by
    itself."""
    fields = []
    if suspects:
        options = [option(suspect, suspect) for suspect in suspects[:MAX_OPTIONS]]
        menu = {
            "type": "static_select",
            "options": options,
            "placeholder": plain("Choose", MAX_PLACEHOLDER),
        }
        fields.append(field(SUSPECT, "The cause was", menu, optional=True))
    words: Block = {"type": "plain_text_input", "multiline": True, "max_length": MAX_INPUT - 1_000}
    if recorded_cause:
        words["initial_value"] = recorded_cause[: MAX_INPUT - 1_000]
    hint = (
        "Names of services and ids of changes are matched to the case; it becomes a labelled case "
        "for evaluation."
    )
    fields.append(
        field(
            CAUSE, "In your words" if suspects else "The cause was", words, hint=hint, optional=True
        )
    )
    blocks = [
        paragraph(
            "The answer was: "
            f"{single_line(investigation.headline or investigation.alert.title, 400)}"
        ),
        *fields,
        context("Your name is shown with it."),
    ]
    return modal(
        WRONG_FORM, "What was the cause?", blocks, metadata=about.metadata(), submit="Keep"
    )


def stated_cause(view: ClickedView) -> str:
    """The cause: the suspect that was chosen, and what was written."""
    return "; ".join(
        part for part in (view.field_text(SUSPECT), view.field_text(CAUSE).strip()) if part
    )


def mute_modal(
    about: FormFor, investigation: StoredInvestigation, longest: timedelta = LONGEST
) -> Block:
    """For how long, and why; of a storm also which of its alerts."""
    offered = [(label, name) for name, (label, length) in DURATIONS.items() if length <= longest]
    hours = longest / timedelta(hours=1)
    at_most = f"Until it is resolved, {hours:g} hours at most"
    options = [option(label, name) for label, name in [*offered, (at_most, UNTIL_RESOLVED)]]
    radio = {"type": "radio_buttons", "options": options, "initial_option": options[0]}
    blocks = [
        paragraph(
            f"{single_line(investigation.alert.title, 300)} is counted, and not investigated, for"
        ),
        field(FOR, "How long", radio),
    ]
    related = len(investigation.related)
    if related:
        which = [
            option("This alert", THIS),
            option(f"This alert and the {related} others of the incident", ALL),
        ]
        blocks.append(
            field(
                WHICH,
                "Which",
                {"type": "radio_buttons", "options": which, "initial_option": which[0]},
            )
        )
    blocks += [
        field(REASON, "Why", {"type": "plain_text_input", "max_length": 300}, optional=True),
        context(
            "The channel is notified, with your name. Whoever may mute can end it, here or on the "
            "Home tab."
        ),
    ]
    return modal(MUTE_FORM, "Mute this alert", blocks, metadata=about.metadata(), submit="Mute")


def mute_until(chosen: str, now: datetime, longest: timedelta = LONGEST) -> datetime:
    """The end of a mute; what was not understood is the shortest."""
    _, length = DURATIONS.get(chosen, DURATIONS["1h"])
    return now + (longest if chosen == UNTIL_RESOLVED else min(length, longest))


def _named(subject: str, change: str | None) -> str:
    return f"{subject}: {change}" if change else subject
