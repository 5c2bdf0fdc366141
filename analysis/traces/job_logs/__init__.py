"""What a training job writes while it runs: metrics lines and the ranks' logs."""
