"""Access to the native libraries: find and load them, check arguments, call kernels by ctypes (the C ABI) or as torch operators in C++."""
