"""Snapshots of CUDA's memory that torch.cuda.memory._dump_snapshot wrote."""
