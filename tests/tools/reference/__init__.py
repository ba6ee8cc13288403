"""The generated tables of docs/reference: `make docs-reference` writes them from the code."""
