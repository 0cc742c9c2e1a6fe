"""A live web page of a cluster: nodes, pods that wait, decisions and why. It only looks."""
