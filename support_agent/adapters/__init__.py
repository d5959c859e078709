"""Ports made real, one folder a port and one file an implementation."""
