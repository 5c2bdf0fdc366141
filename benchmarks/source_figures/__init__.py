"""What `benchmarks/house.py` measures of Python source: files, sums of files, rooms."""
