"""RewriteFiles -> RewriteFinished: the delete-apply rewrite."""
