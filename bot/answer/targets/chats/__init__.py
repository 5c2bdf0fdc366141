"""The answer as one message in a channel of a chat, edited in place."""
