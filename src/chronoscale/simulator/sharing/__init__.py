"""Resources that rows share with others that run at the same time, and how much slower rows then are."""
