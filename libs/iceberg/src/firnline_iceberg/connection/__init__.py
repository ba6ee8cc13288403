"""The connection to a REST catalog: properties, authentication, health."""
