"""`python -m chronoscale` is the command `chronoscale`."""

from chronoscale.harness.cli import main

main()
