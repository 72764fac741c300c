"""References of all kernels in plain Python, NumPy or torch: native kernels are compared with them, and they run where there is none."""
