"""Learning: networks, agents, and what they leave behind. The only layer that knows torch."""
