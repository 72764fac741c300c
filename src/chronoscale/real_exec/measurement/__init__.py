"""What is measured of executed rows: samples, estimates, fitted cost models, counted kernels and bytes."""
