"""Parts of a consumer: offsets, retries, threads."""
