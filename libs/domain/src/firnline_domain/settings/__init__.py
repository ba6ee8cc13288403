"""Read the properties of tables and the environment, and find what is wrong with them."""
