"""Synchronous jobs: tasks that run each superstep together and wait for the slowest.

Letters of array axes: T supersteps, H steps ahead, J tasks, S sizes of the work, C shares of the CPU budget, Q windows,
M measurements, N nodes.
"""
