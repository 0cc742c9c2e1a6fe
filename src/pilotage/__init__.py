"""Pilotage places work on Kubernetes clusters with policies that are measured, learned and explained."""

__version__ = "0.1.0"
