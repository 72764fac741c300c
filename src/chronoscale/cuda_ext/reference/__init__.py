"""Every kernel in plain Python, NumPy or torch: what the native one is compared with, and what runs where there is none."""
