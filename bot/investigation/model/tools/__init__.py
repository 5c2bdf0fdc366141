"""What a model may ask for: read-only, typed, one file each.
`faultline.bot.investigation.model.toolbox` checks, bounds and runs them."""
