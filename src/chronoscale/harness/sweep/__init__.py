"""Sweeps: many independent simulations, one after another, in processes of this machine, or on a Dask cluster."""
