"""Issues in trackers, made on a person's click and kept in step with the answer."""
