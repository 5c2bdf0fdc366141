"""Files of protocol buffers, read column by column."""
