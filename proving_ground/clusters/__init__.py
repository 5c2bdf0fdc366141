"""Simulated worlds with their cluster, read as the Kubernetes connector reads one."""
