"""Events, orders, results and states as they travel on topics, and the values in them."""
