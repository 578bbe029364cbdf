"""The generated pages and tables, one kind a file, from the committed run records."""
