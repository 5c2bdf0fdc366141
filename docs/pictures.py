"""Takes the pictures of the README: plays the demo and photographs the Slack reply and the page with headless Chromium.

python docs/pictures.py    needs chromium on PATH
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console

sys.path.insert(0, str(Path(__file__).parents[1]))

from bot.demo.run import Played, played
from bot.replies.slack_message import SlackMessage
from bot.replies.slack_preview import to_html

IMAGES = Path(__file__).parent / "images"
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--hide-scrollbars",
    "--disable-background-networking",
    "--disable-sync",
    "--no-first-run",
    "--force-device-scale-factor=2",
]


def photograph(url: str, name: str, width: int, height: int) -> None:
    """One PNG of a page."""
    with tempfile.TemporaryDirectory() as profile:
        command = ["chromium", *FLAGS, f"--user-data-dir={profile}", f"--window-size={width},{height}"]
        command += ["--virtual-time-budget=4000", f"--screenshot={IMAGES / name}", url]
        subprocess.run(command, check=True, capture_output=True, timeout=120)


def slack_page(incident: Played) -> str:
    """The Slack reply as a page."""
    post = incident.vendors.slack.posts[0]
    images = {file.id: file.content for file in incident.vendors.slack.files.values()}
    return to_html(SlackMessage(post.text, tuple(post.blocks)), images)


def main() -> None:
    """Both pictures."""
    IMAGES.mkdir(exist_ok=True)
    with played(Console(quiet=True)) as incident, tempfile.TemporaryDirectory() as scratch:
        slack = Path(scratch) / "slack.html"
        slack.write_text(slack_page(incident), encoding="utf-8")
        photograph(slack.as_uri(), "slack-reply.png", 720, 1060)
        photograph(incident.page, "investigation-page.png", 1100, 1500)


if __name__ == "__main__":
    main()
