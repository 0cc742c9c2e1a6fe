"""A real Kubernetes control plane on this machine, without containers: etcd, API server, controllers, fake nodes."""
