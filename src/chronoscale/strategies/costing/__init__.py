"""How long a row takes: rooflines, fitted curves, learned predictors, counted kernels and bytes."""
