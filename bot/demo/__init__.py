"""The vendors on loopback: stateful stand-ins for Slack and PagerDuty, for the demo and for tests over real HTTP."""
