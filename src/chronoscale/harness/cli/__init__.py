"""The command line. `chronoscale --help` shows the loop: data, profile, bench, simulate, validate, report."""

from chronoscale.harness.cli.main import main

__all__ = ["main"]
