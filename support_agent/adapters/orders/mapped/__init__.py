"""Orders of a shop's own database, described by a file that names its tables and columns."""
