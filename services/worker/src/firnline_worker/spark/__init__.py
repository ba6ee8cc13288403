"""The Spark session, its JVM and its executors."""
