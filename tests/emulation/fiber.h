// Stacks and the switch between them.
#pragma once

#include <cstddef>

#if !defined(__x86_64__) || defined(EMU_UCONTEXT)
#define EMU_PORTABLE 1
#include <ucontext.h>
#endif

namespace emu {

// A stack that runs something, or waits to go on. The default one stands for the thread that was there already.
class Fiber {
 public:
  Fiber() = default;
  Fiber(const Fiber&) = delete;
  explicit Fiber(void (*entry)(Fiber&));  // never ends
  void adopt();                           // the calling thread's own stack: before the first switch from it
  void go(Fiber& to);                     // returns when somebody goes to this one

 private:
  static void start();
  void (*entry_)(Fiber&) = nullptr;
#ifdef EMU_PORTABLE
  ucontext_t context_{};
#else
  void* stack_pointer_ = nullptr;
#endif
  void* fake_ = nullptr;  // the address sanitizer's
  void* bottom_ = nullptr;
  size_t size_ = 0;
};

}  // namespace emu
