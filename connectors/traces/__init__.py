"""Training traces: what a job leaves in directories and S3."""
