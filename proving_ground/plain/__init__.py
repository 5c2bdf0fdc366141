"""The plain rig: incidents written into a real Prometheus, asked through the product's doors."""
