"""What the product needs of the outside, as Protocols whose docstrings state the invariants."""
