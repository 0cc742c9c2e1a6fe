"""The one door to a cluster: credentials, requests, watching, and what objects of the API mean for the model."""
