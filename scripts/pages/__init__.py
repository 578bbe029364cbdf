"""The generated pages, tables and plots, from the records in src/datamux/reproduce/results."""
