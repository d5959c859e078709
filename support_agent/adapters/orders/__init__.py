"""Where orders live: one file a backend."""
