"""`python -m datamux.cli` is the `datamux` command."""

from datamux.cli import main

main()
