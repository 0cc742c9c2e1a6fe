"""Plain data: resources, pods, nodes and the state of a cluster. Needs numpy and nothing else."""
