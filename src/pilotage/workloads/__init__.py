"""Traces: reading, writing, generating, checking, and the order in which their pods arrive."""
