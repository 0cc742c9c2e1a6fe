"""Results for people: terminal tables and the HTML report."""
