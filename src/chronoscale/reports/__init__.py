"""Floor 4: tables, plots and pages made from traces."""
