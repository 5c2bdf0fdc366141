"""What an operator must compute and move at least: floating-point operations and bytes from its
shapes and types, and what an accelerator can do at most.

The definitions are those of TraceLens's performance models, except where `docs/trace-engine/
roofline.md` says otherwise. All of them are lower bounds: each tensor is read or written once.
"""
