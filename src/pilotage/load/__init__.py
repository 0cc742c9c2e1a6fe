"""What is measured on nodes: read from Prometheus, as columns for policies."""
