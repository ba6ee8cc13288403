"""The tables of one bucket and the records that change them."""
