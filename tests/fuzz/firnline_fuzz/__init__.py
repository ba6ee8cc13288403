"""Random histories of tables, written without the product's code, and what readers see of them."""
