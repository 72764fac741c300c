// All of them, compiled at once: reading torch's headers is most of the work.
#include "kernel.cpp"
#include "edges.cpp"
#include "encode.cpp"
#include "gates.cpp"
#include "slots.cpp"
#include "sparse.cpp"
