// All torch operators in one unit of compilation: reading torch's headers takes most of its time.
#include "kernel.cpp"
#include "edges.cpp"
#include "encode.cpp"
#include "gates.cpp"
#include "slots.cpp"
#include "sparse.cpp"
