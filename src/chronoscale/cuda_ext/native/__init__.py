"""The native libraries: found, loaded, called through the C ABI or as torch operators in C++."""
