"""Promises that hold across the layers: the same decisions on every way, the same answers on every front."""
