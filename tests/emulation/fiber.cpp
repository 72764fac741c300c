// swapcontext asks the kernel for the signal mask at every switch, so x86-64 has its own.
#include "fiber.h"

#include <pthread.h>
#include <sys/mman.h>

#include <cstdint>
#include <new>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

namespace emu {
namespace {

#ifdef __SANITIZE_ADDRESS__
constexpr size_t kStack = 256 << 10;
#else
constexpr size_t kStack = 64 << 10;
#endif

Fiber* starting;

}  // namespace

#ifndef EMU_PORTABLE
extern "C" void chronoscale_emu_switch(void** from, void* to);
asm(R"(
.pushsection .text
.type chronoscale_emu_switch,@function
chronoscale_emu_switch:
  pushq %rbp; pushq %rbx; pushq %r12; pushq %r13; pushq %r14; pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15; popq %r14; popq %r13; popq %r12; popq %rbx; popq %rbp
  ret
.size chronoscale_emu_switch,.-chronoscale_emu_switch
.popsection
)");
#endif

void Fiber::start() {
  Fiber& self = *starting;
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(nullptr, nullptr, nullptr);
#endif
  self.entry_(self);
}

Fiber::Fiber(void (*entry)(Fiber&)) : entry_(entry), size_(kStack) {
  bottom_ = mmap(nullptr, kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (bottom_ == MAP_FAILED) throw std::bad_alloc();
  mprotect(bottom_, 4096, PROT_NONE);  // an overflow is a fault, not another stack's change
  // Stacks that began at like addresses would all share a few lines of the cache.
  static unsigned colour = 0;
  const size_t size = kStack - 192 * (colour++ % 32);
#ifdef EMU_PORTABLE
  getcontext(&context_);
  context_.uc_stack.ss_sp = bottom_;
  context_.uc_stack.ss_size = size;
  makecontext(&context_, &Fiber::start, 0);
#else
  void** top = reinterpret_cast<void**>(static_cast<char*>(bottom_) + size);
  *--top = nullptr;  // the return address of start, which does not return
  *--top = reinterpret_cast<void*>(&Fiber::start);
  for (int i = 0; i < 6; ++i) *--top = nullptr;  // the registers that the switch restores
  stack_pointer_ = top;
#endif
}

void Fiber::adopt() {
#ifdef __SANITIZE_ADDRESS__
  thread_local void* bottom = nullptr;
  thread_local size_t size = 0;
  if (!size) {
    pthread_attr_t attributes;
    pthread_getattr_np(pthread_self(), &attributes);
    pthread_attr_getstack(&attributes, &bottom, &size);
    pthread_attr_destroy(&attributes);
  }
  bottom_ = bottom, size_ = size;
#endif
}

void Fiber::go(Fiber& to) {
  starting = &to;
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_start_switch_fiber(&fake_, to.bottom_, to.size_);
#endif
#ifdef EMU_PORTABLE
  swapcontext(&context_, &to.context_);
#else
  chronoscale_emu_switch(&stack_pointer_, to.stack_pointer_);
#endif
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(fake_, nullptr, nullptr);
#endif
}

}  // namespace emu
