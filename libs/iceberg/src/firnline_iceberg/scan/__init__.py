"""Plan scans: live files and the deletes that apply to them."""
