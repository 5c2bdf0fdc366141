"""What a model may ask for: read-only, typed, one file each. `bot.model.toolbox` checks, bounds and runs them."""
