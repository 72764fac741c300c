"""Studies as data: grids of points, what is measured at each, and rows, tables, notes and drawings of the results."""
