"""The rules of the product: standard library only, pure functions, frozen dataclasses."""
