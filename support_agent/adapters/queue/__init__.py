"""Ways to wake whoever answers conversations: one file an implementation."""
