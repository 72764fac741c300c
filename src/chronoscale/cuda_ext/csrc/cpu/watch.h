// Waiting of a thread for work, or for the end of a job: spinning first, then sleeping.
#pragma once

#include <chrono>
#include <thread>

namespace cs {

// Waking a sleeper costs tens of microseconds, as much as a small job. So a thread that has just worked watches for
// that long before it sleeps, yielding to any other thread that wants the core; never longer, or torch's own threads would lack it.
constexpr std::chrono::microseconds kWatch{50};

template <class Done>
void watch(Done done) {
  const auto until = std::chrono::steady_clock::now() + kWatch;
  while (!done() && std::chrono::steady_clock::now() < until) std::this_thread::yield();
}

}  // namespace cs
