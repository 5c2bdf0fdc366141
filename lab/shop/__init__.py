"""The live shop: small real services, a real Redis, PostgreSQL and Prometheus, and faults to
switch on. It knows nothing of the product."""
