"""The conversation: questions about an investigation, and commands, answered in the thread where
they were asked."""
