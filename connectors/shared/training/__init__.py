"""What connectors of training jobs and GPUs share."""
