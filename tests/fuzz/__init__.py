"""Bad input in quantity: a small slice of what benchmarks/security_report.py counts."""
