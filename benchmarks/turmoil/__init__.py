"""The parts of `benchmarks/chaos.py`: what is broken on purpose, the bot's processes, the books
compared."""
