"""Beside kube-scheduler: scheduler extender and scoring service."""
