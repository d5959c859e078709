"""A small shop with tables and a refund endpoint of its own, and the agent mounted into it."""
