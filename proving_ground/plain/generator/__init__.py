"""Systems, incidents and their OpenMetrics. Nothing here knows the product."""
