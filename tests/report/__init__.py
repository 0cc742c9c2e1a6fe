"""The HTML report: what it says, what it draws, and how it looks in a browser."""
