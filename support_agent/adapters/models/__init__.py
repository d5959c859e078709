"""Chat models: one file an implementation."""
