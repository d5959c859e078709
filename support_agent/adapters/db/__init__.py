"""The SQL database behind the storage port: SQLite or PostgreSQL."""
