"""What a person sees in a browser: the list of investigations, each investigation, its charts and
its raw case."""
