"""Slow twins of the kernels in plain Python, written from the published formulas and not from the kernels.

Nothing here is quick or clever: no numba, no tables, no caches. Kernels must agree with these to the bit.
"""
