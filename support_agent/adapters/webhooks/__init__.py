"""Sending events to the endpoints of other systems."""
