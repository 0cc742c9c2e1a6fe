"""The simulator: runs, their metrics and the packing bound."""
