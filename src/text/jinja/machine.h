// What a rendering may still use, and the makers of values. Builtins see the interpreter only through this.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/value.h"

namespace pagoda::text::jinja {

struct Budget {
  std::uint64_t steps = 0;
  std::size_t output_bytes = 0;
  std::size_t memory_bytes = 0;
  int depth = 0;
  double time_ms = 0;
};

class Machine {
 public:
  Machine(const Budget& budget, std::int64_t now_unix_seconds);
  virtual ~Machine() = default;

  /// Pays for `count` nodes, elements or characters.
  void step(std::uint64_t count = 1) {
    steps_ += count;
    if (steps_ >= next_check_) check();
  }
  /// Pays for work on `count` bytes at once.
  void step_bytes(std::size_t count) {
    bytes_ += count;  // what is left over counts on, so that many small pieces cost as much as one large
    if (bytes_ < 64) return;
    step(bytes_ / 64);
    bytes_ %= 64;
  }
  void check();
  /// The time limit counts from here.
  void start_clock();

  virtual Value call(const Value& callee, const Arguments& arguments) = 0;

  Value trusted(std::string_view text);    ///< a string the author wrote
  Value untrusted(std::string_view text);  ///< a string of anyone else
  Value text(Text text);
  Value list(std::vector<Value> items) { return sequence(Kind::kList, std::move(items)); }
  Value tuple(std::vector<Value> items) { return sequence(Kind::kTuple, std::move(items)); }
  Value undefined(std::string hint);
  Value undefined_name(std::string_view name);
  Value undefined_item(const Value& owner, const Value& name);
  Value iterator(std::string_view type_name, std::function<bool(Value& out)> next);
  Value bound(const Builtin& builtin, const Value& self);

  Heap& heap() { return heap_; }
  const Budget& budget() const { return budget_; }
  std::int64_t now() const { return now_; }

  /// Nesting of calls and of nested values being walked.
  class Deeper {
   public:
    explicit Deeper(Machine& machine) : machine_(machine) {
      if (machine.depth_ >= machine.budget_.depth) {
        raise_limit("it nests deeper than {} calls or values", machine.budget_.depth);
      }
      ++machine.depth_;
    }
    ~Deeper() { --machine_.depth_; }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;

   private:
    Machine& machine_;
  };

 private:
  Value sequence(Kind kind, std::vector<Value> items);

  Budget budget_;
  Heap heap_;
  std::uint64_t steps_ = 0;
  std::uint64_t next_check_ = 0;
  std::size_t bytes_ = 0;
  int depth_ = 0;
  std::chrono::nanoseconds deadline_{};  ///< in CPU time of this thread: time that others take is not the template's
  std::int64_t now_;
};

/// Runs a builtin with its parameters bound by position and name.
Value run_builtin(Machine& machine, const Builtin& builtin, const Value& self, const Arguments& arguments);

}  // namespace pagoda::text::jinja
