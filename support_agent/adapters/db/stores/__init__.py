"""The storage port in SQL: each store is one table family over an open connection."""
