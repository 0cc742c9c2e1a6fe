"""Policies: they only score candidates. Encoding, choosing and explaining are the same for all of them."""
