"""Small faults put into the product's source, and whether a test notices each of them."""
