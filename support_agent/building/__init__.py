"""What the container builds from settings: plain functions, one file a subject."""
