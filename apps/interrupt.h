// Ctrl-C: first this answer, then the program.
#pragma once

#include <functional>
#include <vector>

namespace pagoda::apps {

/// While it lives, the first SIGINT calls `stop` (on a thread of its own) and the next one ends the program with 130,
/// as do all SIGINTs outside such a life. One at a time. `also`: signals that do the same, for what must not leave a
/// half-written file behind; one that the caller has had ignored (nohup) stays so.
class Interrupt {
 public:
  explicit Interrupt(std::function<void()> stop, const std::vector<int>& also = {});
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

 private:
  struct State;
  State* state_;
};

}  // namespace pagoda::apps
