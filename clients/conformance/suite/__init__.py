"""Conformance suite of the getid clients."""
