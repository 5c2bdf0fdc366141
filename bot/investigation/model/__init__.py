"""The investigating model: its client, its tools, the loop between them within budgets, and its
result."""
