"""Commands on clusters to simulate."""
