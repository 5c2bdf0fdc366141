"""From a vendor's answer to rows of the evidence tables."""
