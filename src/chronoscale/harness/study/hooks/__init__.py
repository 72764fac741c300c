"""Hooks: what a paper's studies need beyond expressions, a module a paper; a study's `hooks` names it."""
