"""What the properties of tables and the environment say, and what is wrong with it."""
