"""Compiled functions: arrays in, arrays out. Every kernel has a slow twin in tests/reference."""
