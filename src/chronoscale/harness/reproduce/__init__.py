"""The papers' figures and tables, run again: published beside ours."""
