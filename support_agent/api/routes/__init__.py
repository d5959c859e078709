"""One file of routes for each thing there is."""
