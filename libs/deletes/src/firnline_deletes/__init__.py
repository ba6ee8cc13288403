"""The delete-apply kernel: key sets and masks on Arrow."""
