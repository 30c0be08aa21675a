// jinja2's tests (`is ...`) and the global functions.
#include <time.h>  // strftime_l, localtime_r: POSIX

#include <algorithm>

#include "text/jinja/builtins.h"
#include "text/jinja/operators.h"
#include "text/jinja/printing.h"
#include "text/jinja/tracing.h"

namespace pagoda::text::jinja {

namespace {

constexpr std::uint64_t kMaxRange = 100'000;  // jinja2's sandbox
constexpr std::size_t kMaxDateBytes = 4096;

Value yes(bool b) { return Value::boolean(b); }

Value remainder_is(Call& call, std::int64_t divisor, std::int64_t wanted) {
  return yes(equals(binary(call.machine, "%", call.self, Value::integer(divisor)), Value::integer(wanted)));
}
Value odd(Call& call) { return remainder_is(call, 2, 1); }
Value even(Call& call) { return remainder_is(call, 2, 0); }
Value divisibleby(Call& call) {
  return yes(equals(binary(call.machine, "%", call.self, call.a[0]), Value::integer(0)));
}
Value defined(Call& call) { return yes(!call.self.is(Kind::kUndefined)); }
Value undefined(Call& call) { return yes(call.self.is(Kind::kUndefined)); }
Value filter(Call& call) { return yes(call.self.is(Kind::kString) && find_filter(call.self.bytes()) != nullptr); }
Value test(Call& call) { return yes(call.self.is(Kind::kString) && find_test(call.self.bytes()) != nullptr); }
Value none(Call& call) { return yes(call.self.is(Kind::kNone)); }
Value boolean(Call& call) { return yes(call.self.is(Kind::kBool)); }
Value false_(Call& call) { return yes(call.self.is(Kind::kBool) && !call.self.as_bool()); }
Value true_(Call& call) { return yes(call.self.is(Kind::kBool) && call.self.as_bool()); }
Value integer(Call& call) { return yes(call.self.is(Kind::kInt)); }
Value real(Call& call) { return yes(call.self.is(Kind::kFloat)); }
Value number(Call& call) { return yes(call.self.is_number()); }
Value lower(Call& call) { return yes(text_is_lower(to_text(call.machine, call.self).text())); }
Value upper(Call& call) { return yes(text_is_upper(to_text(call.machine, call.self).text())); }
Value string(Call& call) { return yes(call.self.is(Kind::kString)); }
Value mapping(Call& call) { return yes(call.self.is(Kind::kDict)); }
Value sequence(Call& call) {
  const Kind kind = call.self.kind();
  return yes(kind == Kind::kString || kind == Kind::kDict || kind == Kind::kRange || call.self.is_sequence() ||
             kind == Kind::kUndefined);
}
Value iterable(Call& call) { return yes(is_iterable(call.self)); }
Value callable(Call& call) {
  const Kind kind = call.self.kind();
  return yes(kind == Kind::kFunction || kind == Kind::kMacro || kind == Kind::kLoop || kind == Kind::kJoiner ||
             kind == Kind::kUndefined);
}
Value escaped(Call& call) { return yes(call.self.is(Kind::kString) && call.self.text().markup); }
Value sameas(Call& call) {
  const Value& other = call.a[0];
  if (call.self.kind() != other.kind()) return yes(false);
  if (call.self.is(Kind::kNone)) return yes(true);
  if (call.self.is_int()) return yes(call.self.as_int() == other.as_int());
  if (call.self.is(Kind::kFloat)) return yes(call.self.as_real() == other.as_real());
  if (call.self.is(Kind::kString)) return yes(call.self.bytes() == other.bytes());  // as if interned
  return yes(call.self.object() == other.object());
}
Value in(Call& call) { return yes(contains(call.machine, call.a[0], call.self)); }
Value eq(Call& call) {
  call.machine.step(weight_of(call.self));
  return yes(equals(call.self, call.a[0]));
}
Value ne(Call& call) {
  call.machine.step(weight_of(call.self));
  return yes(!equals(call.self, call.a[0]));
}
Value lt(Call& call) { return yes(ordered(call.machine, "<", call.self, call.a[0])); }
Value le(Call& call) { return yes(ordered(call.machine, "<=", call.self, call.a[0])); }
Value gt(Call& call) { return yes(ordered(call.machine, ">", call.self, call.a[0])); }
Value ge(Call& call) { return yes(ordered(call.machine, ">=", call.self, call.a[0])); }

constexpr Builtin kTests[] = {
    {"odd", "", 0, odd},
    {"even", "", 0, even},
    {"divisibleby", "num", 1, divisibleby},
    {"defined", "", 0, defined},
    {"undefined", "", 0, undefined},
    {"filter", "", 0, filter},
    {"test", "", 0, test},
    {"none", "", 0, none},
    {"boolean", "", 0, boolean},
    {"false", "", 0, false_},
    {"true", "", 0, true_},
    {"integer", "", 0, integer},
    {"float", "", 0, real},
    {"lower", "", 0, lower},
    {"upper", "", 0, upper},
    {"string", "", 0, string},
    {"mapping", "", 0, mapping},
    {"number", "", 0, number},
    {"sequence", "", 0, sequence},
    {"iterable", "", 0, iterable},
    {"callable", "", 0, callable},
    {"sameas", "other", 1, sameas},
    {"escaped", "", 0, escaped},
    {"in", "seq", 1, in},
    {"==", "other", 1, eq},
    {"eq", "other", 1, eq},
    {"equalto", "other", 1, eq},
    {"!=", "other", 1, ne},
    {"ne", "other", 1, ne},
    {">", "other", 1, gt},
    {"gt", "other", 1, gt},
    {"greaterthan", "other", 1, gt},
    {"ge", "other", 1, ge},
    {">=", "other", 1, ge},
    {"<", "other", 1, lt},
    {"lt", "other", 1, lt},
    {"lessthan", "other", 1, lt},
    {"<=", "other", 1, le},
    {"le", "other", 1, le},
};

Value range(Call& call) {
  auto* made = call.machine.heap().make<Range>();
  if (given(call.a[1])) {
    made->start = int_argument(call.a[0], 0);
    made->stop = int_argument(call.a[1], 0);
    made->step = int_argument(call.a[2], 1);
  } else {
    made->stop = int_argument(call.a[0], 0);
  }
  if (made->step == 0) raise("range() arg 3 must not be zero");
  // Unsigned differences cannot overflow, however far apart the ends are.
  const auto low = static_cast<std::uint64_t>(made->step < 0 ? made->stop : made->start);
  const auto high = static_cast<std::uint64_t>(made->step < 0 ? made->start : made->stop);
  const bool empty = made->step < 0 ? made->start <= made->stop : made->stop <= made->start;
  const std::uint64_t stride =
      made->step < 0 ? 0 - static_cast<std::uint64_t>(made->step) : static_cast<std::uint64_t>(made->step);
  const std::uint64_t length = empty ? 0 : (high - low - 1) / stride + 1;
  if (length > kMaxRange) {
    raise("Range too big. The sandbox blocks ranges larger than MAX_RANGE ({}).", kMaxRange);
  }
  made->length = static_cast<std::int64_t>(length);
  return Value(Kind::kRange, made);
}

void fill_dict(Machine& machine, Dict& dict, const Arguments& arguments, std::string_view name) {
  if (arguments.positional.size() > 1) {
    raise("{} expected at most 1 argument, got {}", name, arguments.positional.size());
  }
  if (!arguments.positional.empty()) {
    const Value& source = arguments.positional[0];
    if (source.is(Kind::kDict)) {
      for (const auto& [key, value] : source.as<Dict>().items) dict.set(key, value);
    } else {
      std::size_t index = 0;
      for (const Value& item : collect(machine, source)) {
        if (!is_iterable(item)) raise("cannot convert dictionary update sequence element #{} to a sequence", index);
        const auto pair = collect(machine, item);
        if (pair.size() != 2) {
          raise("dictionary update sequence element #{} has length {}; 2 is required", index, pair.size());
        }
        require_hashable(pair[0]);
        dict.set(pair[0], pair[1]);
        ++index;
      }
    }
  }
  for (const auto& [key, value] : arguments.named) dict.set(machine.trusted(key), value);
  machine.heap().charge(dict.items.size() * 2 * sizeof(Value));
}

Value dict(Call& call) {
  auto* made = call.machine.heap().make<Dict>();
  fill_dict(call.machine, *made, call.given, "dict");
  return Value(Kind::kDict, made);
}

Value make_namespace(Call& call) {
  auto* made = call.machine.heap().make<Namespace>();
  fill_dict(call.machine, made->dict, call.given, "dict");
  for (const auto& [name, value] : made->dict.items) {
    if (name.is(Kind::kString)) check_namespace_name(name.bytes());
  }
  return Value(Kind::kNamespace, made);
}

Value cycler(Call& call) {
  if (call.given.positional.empty()) raise("at least one item has to be provided");
  auto* made = call.machine.heap().make<Cycler>();
  made->items = call.given.positional;
  return Value(Kind::kCycler, made);
}

Value joiner(Call& call) {
  auto* made = call.machine.heap().make<Joiner>();
  made->separator = given(call.a[0]) ? call.a[0] : call.machine.trusted(", ");
  return Value(Kind::kJoiner, made);
}

Value raise_exception(Call& call) { raise("{}", to_text(call.machine, call.a[0]).bytes()); }

Value lipsum(Call& call) {
  (void)call;
  raise("lipsum() is not supported in chat templates: its text is random");
}

/// datetime.now().strftime(text): the C library's, but naive about time zones.
Value strftime_now(Call& call) {
  std::string pattern;
  const std::string& asked = text_argument(call.a[0], "strftime() argument 1").bytes;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    if (asked[i] != '%' || i + 1 == asked.size()) {
      pattern += asked[i];
      continue;
    }
    const char letter = asked[++i];
    if (letter == 'f') {
      pattern += "000000";
    } else if (letter != 'z' && letter != 'Z') {
      pattern += {'%', letter};
    }
  }
  const auto seconds = static_cast<time_t>(call.machine.now());
  tm local{};
  localtime_r(&seconds, &local);
  static const locale_t kPlain = newlocale(LC_ALL_MASK, "C", nullptr);
  char buffer[kMaxDateBytes];
  pattern += ' ';  // so that an empty result is told apart from one that does not fit
  const std::size_t size = strftime_l(buffer, sizeof buffer, pattern.c_str(), &local, kPlain);
  if (size == 0) raise_limit("strftime_now makes more than {} bytes", kMaxDateBytes);
  return call.machine.untrusted(std::string_view(buffer, size - 1));
}

constexpr Builtin kGlobals[] = {
    {"range", "start stop step", 1, range},
    {"dict", "*", 0, dict},
    {"lipsum", "*", 0, lipsum},
    {"cycler", "*", 0, cycler},
    {"joiner", "sep", 0, joiner},
    {"namespace", "*", 0, make_namespace},
    {"raise_exception", "message", 1, raise_exception},
    {"strftime_now", "format", 1, strftime_now},
};

const Builtin* find_in(std::span<const Builtin> table, std::string_view name) {
  const auto found =
      std::find_if(table.begin(), table.end(), [&](const Builtin& builtin) { return builtin.name == name; });
  return found == table.end() ? nullptr : &*found;
}

[[noreturn]] void unknown(std::string_view what, const Value& name) {
  if (!name.is(Kind::kUndefined)) raise("No {} named {}.", what, repr_of(name));
  raise("No {} named Undefined. ({}; did you forget to quote the callable name?)", what, undefined_words(name));
}

}  // namespace

void check_namespace_name(std::string_view name) {
  if (!name.starts_with("_")) return;
  raise(
      "Chat templates cannot store underscore-prefixed attributes on a namespace, but got {}. Please rename the "
      "attribute.",
      string_repr(name));
}

const Builtin* find_filter(std::string_view name) {
  const Builtin* found = find_in(text_filters(), name);
  return found != nullptr ? found : find_in(sequence_filters(), name);
}

const Builtin* find_test(std::string_view name) { return find_in(kTests, name); }

std::span<const Builtin> global_functions() { return kGlobals; }

Value call_filter(Machine& machine, const Value& name, const Value& value, const Arguments& arguments) {
  const Builtin* found = name.is(Kind::kString) ? find_filter(name.bytes()) : nullptr;
  if (found == nullptr) unknown("filter", name);
  return run_builtin(machine, *found, value, arguments);
}

bool call_test(Machine& machine, const Value& name, const Value& value, const Arguments& arguments) {
  const Builtin* found = name.is(Kind::kString) ? find_test(name.bytes()) : nullptr;
  if (found == nullptr) unknown("test", name);
  return truthy(run_builtin(machine, *found, value, arguments));
}

}  // namespace pagoda::text::jinja
