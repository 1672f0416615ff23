"""Unit tests of the package: against a scripted server in this process, with a clock that the tests move."""
