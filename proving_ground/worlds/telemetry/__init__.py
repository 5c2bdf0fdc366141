"""What a monitoring system would have recorded of a world, with all that it loses and distorts."""
