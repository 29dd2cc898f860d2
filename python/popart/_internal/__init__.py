"""Names of the core as lower-level programs know them."""
