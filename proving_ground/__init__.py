"""Where the diagnosis is measured: simulated worlds and a live shop, with a known truth."""
