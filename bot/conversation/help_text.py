"""What the bot says of itself: its commands, and what can be asked in a thread."""

from __future__ import annotations

from faultline.bot.intake.questions.slack_question import AnswerLine, AnswerText

CAN_ANSWER = (
    "why · what is the evidence against it · what changed · who is affected · since when · is it "
    "still happening · graph the error rate · what was p99 before · compare with yesterday · who "
    "is on call · show logs of a service · other suspects · what next · draft a status update · "
    "write a postmortem"
)
HELP = AnswerText(
    lead="I investigate alerts and answer questions about what I found. I change nothing.",
    lines=(
        AnswerLine(
            bold="investigate checkout errors since 10:05",
            text="look into something; in an alert's thread, investigate alone is enough",
        ),
        AnswerLine(
            bold="status", text="what is running, whether the sources answer, the last answers"
        ),
        AnswerLine(
            bold="handover 24h",
            text="what happened, what is open, what recurs, which alerts were noise",
        ),
        AnswerLine(
            bold="explain F3", text="a finding: its numbers, how it was computed, its query"
        ),
        AnswerLine(
            bold="trace",
            text="and an address in S3: the trace doctor on a training job's files there",
        ),
        AnswerLine(
            bold="quiet, listen",
            text="in this thread, answer only when mentioned; answer questions again",
        ),
    ),
    more=(
        f"In an answer's thread, just ask: {CAN_ANSWER} · what about the last 6 hours · check "
        f"payments too",
        "To correct me: it was the payments deploy",
    ),
)
