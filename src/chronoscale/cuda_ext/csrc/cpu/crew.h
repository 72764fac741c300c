// Threads that are bound to processors, one each, for jobs whose parts always run on the same processor (cs_bind).
#pragma once

#include <cstdint>

namespace cs {

int bound();  // threads of the crew; 0: there is none

// Calls body(context, part, parts) once on each thread of the crew, part being its number, while the caller waits, and returns true; where
// there is no crew nothing is called. Callers take turns. Throws std::bad_alloc where a part threw.
using Part = void (*)(void* context, int part, int parts);
bool by_crew(Part body, void* context);

template <class F>
bool by_crew(F& f) {
  return by_crew([](void* context, int part, int parts) { (*static_cast<F*>(context))(part, parts); }, &f);
}

}  // namespace cs
