#include "text/jinja/machine.h"

#include <algorithm>
#include <ctime>

#include "text/jinja/tracing.h"
#include "text/jinja/unicode.h"

namespace pagoda::text::jinja {

namespace {

constexpr std::uint64_t kStepsBetweenChecks = 256;  // looking at the clock is a system call

std::chrono::nanoseconds cpu_time() {
  std::timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

}  // namespace

Machine::Machine(const Budget& budget, std::int64_t now_unix_seconds)
    : budget_(budget), heap_(budget.memory_bytes), now_(now_unix_seconds) {
  start_clock();
}

void Machine::start_clock() {
  deadline_ = cpu_time() + std::chrono::nanoseconds(static_cast<std::int64_t>(std::min(budget_.time_ms, 1e9) * 1e6));
}

void Machine::check() {
  if (steps_ > budget_.steps) raise_limit("it takes more than {} steps", budget_.steps);
  if (cpu_time() > deadline_) raise_limit("it takes longer than {} ms", budget_.time_ms);
  next_check_ = std::min(steps_ + kStepsBetweenChecks, budget_.steps + 1);
}

Value Machine::trusted(std::string_view text) {
  Text made;
  made.bytes = text;
  if (!text.empty()) made.trusted = {{0, text.size()}};
  return this->text(std::move(made));
}

Value Machine::untrusted(std::string_view text) {
  Text made;
  made.bytes = text;
  return this->text(std::move(made));
}

Value Machine::text(Text text) {
  step_bytes(text.bytes.size());
  heap_.charge(text.bytes.size() + text.trusted.size() * sizeof(ByteRange));
  text.chars = count_chars(text.bytes);
  Text* made = heap_.make<Text>();
  *made = std::move(text);
  return Value(Kind::kString, made);
}

Value Machine::sequence(Kind kind, std::vector<Value> items) {
  step(items.size() / 4);
  heap_.charge(items.size() * sizeof(Value));
  auto* made = heap_.make<Sequence>();
  for (const Value& item : items) made->extent.add(item);
  made->items = std::move(items);
  return Value(kind, made);
}

Value Machine::undefined(std::string hint) {
  heap_.charge(hint.size());
  auto* made = heap_.make<Undefined>();
  made->hint = std::move(hint);
  return Value(Kind::kUndefined, made);
}

Value Machine::undefined_name(std::string_view name) {
  auto* made = heap_.make<Undefined>();
  made->name = trusted(name);
  return Value(Kind::kUndefined, made);
}

Value Machine::undefined_item(const Value& owner, const Value& name) {
  auto* made = heap_.make<Undefined>();
  made->owner = owner;
  made->name = name;
  return Value(Kind::kUndefined, made);
}

Value Machine::iterator(std::string_view type_name, std::function<bool(Value& out)> next) {
  auto* made = heap_.make<Iterator>();
  made->type_name = type_name;
  made->next = std::move(next);
  return Value(Kind::kIterator, made);
}

Value Machine::bound(const Builtin& builtin, const Value& self) {
  auto* made = heap_.make<Function>();
  made->builtin = &builtin;
  made->self = self;
  return Value(Kind::kFunction, made);
}

Value run_builtin(Machine& machine, const Builtin& builtin, const Value& self, const Arguments& arguments) {
  machine.step();
  Call call{.machine = machine, .self = self, .a = {}, .given = arguments};
  if (builtin.parameters == "*") return builtin.run(call);
  std::string_view names[7];
  int num_names = 0;
  for (std::string_view rest = builtin.parameters; !rest.empty();) {
    const std::size_t space = std::min(rest.find(' '), rest.size());
    names[num_names++] = rest.substr(0, space);
    rest.remove_prefix(std::min(space + 1, rest.size()));
  }
  if (arguments.positional.size() > static_cast<std::size_t>(num_names)) {
    raise("{}() takes at most {} arguments ({} given)", builtin.name, num_names, arguments.positional.size());
  }
  std::copy(arguments.positional.begin(), arguments.positional.end(), call.a);
  for (const auto& [name, value] : arguments.named) {
    int i = 0;
    while (i < num_names && names[i] != name) ++i;
    if (i == num_names) raise("{}() got an unexpected keyword argument '{}'", builtin.name, name);
    if (!call.a[i].is(Kind::kMissing)) raise("{}() got multiple values for argument '{}'", builtin.name, name);
    call.a[i] = value;
  }
  for (int i = 0; i < builtin.required; ++i) {
    if (call.a[i].is(Kind::kMissing)) {
      raise("{}() missing 1 required positional argument: '{}'", builtin.name, names[i]);
    }
  }
  return builtin.run(call);
}

}  // namespace pagoda::text::jinja
