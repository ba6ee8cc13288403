"""Build delete sets, cache them, send them to executors."""
