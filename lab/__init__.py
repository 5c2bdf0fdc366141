"""`faultline lab`: a live shop of real processes, and its incidents played through the bot."""
