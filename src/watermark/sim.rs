//! A disk that crashes on command, for tests.
