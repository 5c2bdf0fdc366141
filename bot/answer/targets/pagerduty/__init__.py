"""PagerDuty as a reply target; `target` declares it."""
