"""One investigation, from the accepted alert to the stored report."""
