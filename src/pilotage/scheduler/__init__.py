"""The scheduler on a cluster: a queue, decisions on a snapshot, bindings that come after."""
