"""A table under writers: its files, the steps of writers, a model of its rows, and who reads them.

`rows` says what each snapshot has to show, and knows no file. `writer` writes files and commits
them by Iceberg's own Java API. `table` is one table of rows (id, v, p), with its oracle: Iceberg's
generic reader. `steps` is the alphabet: each step is a commit and what it means for the rows.
`worker` rewrites one row at a time. Suites differ in what draws the steps, not in the steps.
"""
