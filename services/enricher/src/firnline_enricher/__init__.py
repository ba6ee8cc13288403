"""TableCommitted -> FilesChanged: what each commit changed."""
