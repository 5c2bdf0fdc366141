"""Where the diagnosis is measured: simulated worlds with a known truth. No product code."""
