"""`faultline trace`: the trace doctor on files, as a report on the terminal, a page, or JSON."""
