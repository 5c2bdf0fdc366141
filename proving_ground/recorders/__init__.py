"""What makes the recorded cases of demo/: a real training job, profiled."""
