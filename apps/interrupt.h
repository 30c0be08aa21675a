// Ctrl-C: first this answer, then the program.
#pragma once

#include <functional>

namespace pagoda::apps {

/// While it lives, the first SIGINT calls `stop` (on a thread of its own) and the next one ends the program with 130,
/// as do all SIGINTs outside such a life. One at a time.
class Interrupt {
 public:
  explicit Interrupt(std::function<void()> stop);
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

 private:
  struct State;
  State* state_;
};

}  // namespace pagoda::apps
