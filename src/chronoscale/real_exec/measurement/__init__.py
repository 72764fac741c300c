"""What is measured, and what is learned from it: profiles, repeats, counts of kernels, fitted costs, a predictor, the machine."""
