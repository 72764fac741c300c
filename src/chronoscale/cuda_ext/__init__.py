"""Ground floor: native kernels, their reference implementations, and the loader."""
