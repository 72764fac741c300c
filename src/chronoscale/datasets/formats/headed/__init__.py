"""Tables with a header: files read by pyarrow, columns by name, families by columns, and event streams and signals made of them."""
