"""The observe-reason-act loop and the one use case that every entry point calls: take a message."""
