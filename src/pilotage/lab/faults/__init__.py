"""Faults made on purpose in a lab, and what is counted afterwards."""
