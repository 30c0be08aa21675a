#include "text/jinja/operators.h"

#include <algorithm>
#include <cmath>

#include "base/checked.h"
#include "text/jinja/builtins.h"
#include "text/jinja/formatting.h"
#include "text/jinja/printing.h"
#include "text/jinja/tracing.h"

namespace pagoda::text::jinja {

namespace {

[[noreturn]] void unsupported(std::string_view symbol, const Value& a, const Value& b) {
  raise("unsupported operand type(s) for {}: '{}' and '{}'", symbol == "**" ? "** or pow()" : symbol, type_name(a),
        type_name(b));
}

std::int64_t floor_divide(std::int64_t a, std::int64_t b) {
  const std::int64_t quotient = a / b;
  return quotient - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0);
}

std::int64_t integer_power(std::int64_t base, std::int64_t exponent) {
  std::int64_t result = 1;
  while (exponent > 0) {
    if ((exponent & 1) != 0) result = checked_int(checked_mul(result, base));
    exponent >>= 1;
    if (exponent > 0) base = checked_int(checked_mul(base, base));
  }
  return result;
}

/// Floor division and remainder as CPython computes them for floats.
std::pair<double, double> float_divmod(double a, double b) {
  double mod = std::fmod(a, b);
  double div = (a - mod) / b;
  if (mod != 0) {
    if ((b < 0) != (mod < 0)) {
      mod += b;
      div -= 1.0;
    }
  } else {
    mod = std::copysign(0.0, b);
  }
  double floored = 0;
  if (div != 0) {
    floored = std::floor(div);
    if (div - floored > 0.5) floored += 1.0;
  } else {
    floored = std::copysign(0.0, a / b);
  }
  return {floored, mod};
}

Value integer_binary(std::string_view symbol, std::int64_t a, std::int64_t b) {
  if (symbol == "+") return Value::integer(checked_int(checked_add(a, b)));
  if (symbol == "*") return Value::integer(checked_int(checked_mul(a, b)));
  if (symbol == "-") {
    std::int64_t out = 0;
    return Value::integer(checked_int(__builtin_sub_overflow(a, b, &out) ? std::nullopt : std::optional(out)));
  }
  if (symbol == "**") {
    if (b >= 0) return Value::integer(integer_power(a, b));
    if (a == 0) raise("0.0 cannot be raised to a negative power");
    return Value::real(std::pow(static_cast<double>(a), static_cast<double>(b)));
  }
  if (symbol == "/") {
    if (b == 0) raise("division by zero");
    return Value::real(static_cast<double>(static_cast<long double>(a) / static_cast<long double>(b)));
  }
  if (b == 0) raise("{}", symbol == "%" ? "integer modulo by zero" : "integer division or modulo by zero");
  if (b == -1) return symbol == "%" ? Value::integer(0) : negate(Value::integer(a));
  const std::int64_t quotient = floor_divide(a, b);
  return Value::integer(symbol == "%" ? a - quotient * b : quotient);
}

Value float_binary(std::string_view symbol, double a, double b) {
  if (symbol == "+") return Value::real(a + b);
  if (symbol == "-") return Value::real(a - b);
  if (symbol == "*") return Value::real(a * b);
  if (symbol == "**") {
    if (a == 0 && b < 0) raise("0.0 cannot be raised to a negative power");
    if (a < 0 && std::isfinite(a) && std::isfinite(b) && b != std::floor(b)) raise("complex numbers are not supported");
    const double power = std::pow(a, b);
    if (std::isinf(power) && std::isfinite(a) && std::isfinite(b)) raise("(34, 'Numerical result out of range')");
    return Value::real(power);
  }
  if (b == 0) {
    raise("{}", symbol == "/"   ? "float division by zero"
                : symbol == "%" ? "float modulo"
                                : "float floor division by zero");
  }
  if (symbol == "/") return Value::real(a / b);
  const auto [div, mod] = float_divmod(a, b);
  return Value::real(symbol == "%" ? mod : div);
}

Value repeat_sequence(Machine& machine, const Value& sequence, std::int64_t count) {
  if (sequence.is(Kind::kString)) {
    TextBuilder builder(machine);
    builder.repeat(sequence.text(), count);
    return builder.build(sequence.text().markup);
  }
  const auto& items = sequence.as<Sequence>().items;
  std::vector<Value> out;
  if (!items.empty()) {
    for (std::int64_t i = 0; i < count; ++i) {
      machine.step(items.size());
      machine.heap().charge(items.size() * sizeof(Value));
      out.insert(out.end(), items.begin(), items.end());
    }
  }
  return sequence.is(Kind::kList) ? machine.list(std::move(out)) : machine.tuple(std::move(out));
}

Value add_texts(Machine& machine, const Value& a, const Value& b) {
  const bool markup = a.text().markup || b.text().markup;
  TextBuilder builder(machine);
  builder.copy(markup ? escape_text(machine, a.text()).text() : a.text());
  builder.copy(markup ? escape_text(machine, b.text()).text() : b.text());
  return builder.build(markup);
}

Value add_others(Machine& machine, const Value& a, const Value& b) {
  if (a.is(Kind::kString) && b.is(Kind::kString)) return add_texts(machine, a, b);
  if (a.is_sequence() && a.kind() == b.kind()) {
    std::vector<Value> items = a.as<Sequence>().items;
    const auto& more = b.as<Sequence>().items;
    items.insert(items.end(), more.begin(), more.end());
    return a.is(Kind::kList) ? machine.list(std::move(items)) : machine.tuple(std::move(items));
  }
  if (a.is(Kind::kString) || a.is_sequence()) {
    const std::string_view kind = a.is(Kind::kString) ? "str" : type_name(a);
    raise("can only concatenate {} (not \"{}\") to {}", kind, type_name(b), kind);
  }
  unsupported("+", a, b);
}

bool is_repeatable(const Value& value) { return value.is(Kind::kString) || value.is_sequence(); }

Value multiply_others(Machine& machine, const Value& a, const Value& b) {
  if (is_repeatable(a) && b.is_int()) return repeat_sequence(machine, a, b.as_int());
  if (is_repeatable(b) && a.is_int()) return repeat_sequence(machine, b, a.as_int());
  if (is_repeatable(a)) raise("can't multiply sequence by non-int of type '{}'", type_name(b));
  if (is_repeatable(b)) raise("can't multiply sequence by non-int of type '{}'", type_name(a));
  unsupported("*", a, b);
}

/// `a | b` is no operator of templates; dicts and views know none of the arithmetic ones but `-` on key views.
std::optional<int> compare_numbers(const Value& a, const Value& b) {
  if (a.is_int() && b.is_int()) return a.as_int() < b.as_int() ? -1 : a.as_int() > b.as_int() ? 1 : 0;
  const auto exact = [](const Value& v) {
    return v.is_int() ? static_cast<long double>(v.as_int()) : static_cast<long double>(v.as_real());
  };
  const long double left = exact(a);
  const long double right = exact(b);
  if (std::isnan(left) || std::isnan(right)) return std::nullopt;
  return left < right ? -1 : left > right ? 1 : 0;
}

}  // namespace

std::int64_t checked_int(std::optional<std::int64_t> value) {
  if (!value) raise_limit("it computes an integer beyond 64 bits");
  return *value;
}

std::string undefined_words(const Value& undefined) {
  const auto& it = undefined.as<Undefined>();
  if (!it.hint.empty()) return it.hint;
  if (it.owner.is(Kind::kMissing)) return repr_of(it.name) + " is undefined";
  if (!it.name.is(Kind::kString)) return describe_type(it.owner) + " has no element " + repr_of(it.name);
  return "'" + describe_type(it.owner) + "' has no attribute " + repr_of(it.name);
}

void raise_undefined(const Value& undefined) { raise("{}", undefined_words(undefined)); }

std::string describe_type(const Value& value) {
  switch (value.kind()) {
    case Kind::kNone:
      return "None";
    case Kind::kNamespace:
      return "transformers.utils.chat_template_utils.TemplateNamespace object";
    case Kind::kMacro:
    case Kind::kLoop:
      return "jinja2.runtime." + std::string(type_name(value)) + " object";
    case Kind::kCycler:
    case Kind::kJoiner:
      return "jinja2.utils." + std::string(type_name(value)) + " object";
    case Kind::kString:
      if (value.text().markup) return "markupsafe.Markup object";
      [[fallthrough]];
    default:
      if (value.is_sequence() && value.as<Sequence>().group) return "jinja2.filters._GroupTuple object";
      return std::string(type_name(value)) + " object";
  }
}

bool truthy(const Value& value) {
  switch (value.kind()) {
    case Kind::kMissing:
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
    case Kind::kInt:
      return value.as_int() != 0;
    case Kind::kFloat:
      return value.as_real() != 0;
    default:
      const auto length = length_of(value);
      return !length || *length != 0;
  }
}

bool equals(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) return compare_numbers(a, b) == 0;
  if (a.kind() != b.kind()) return false;
  if (a.object() == b.object()) return true;
  const auto same = [](const Value& x, const Value& y) { return equals(x, y); };
  switch (a.kind()) {
    case Kind::kUndefined:
      return true;
    case Kind::kString:
      return a.bytes() == b.bytes();
    case Kind::kList:
    case Kind::kTuple: {
      const auto& left = a.as<Sequence>().items;
      const auto& right = b.as<Sequence>().items;
      return std::equal(left.begin(), left.end(), right.begin(), right.end(), same);
    }
    case Kind::kDict: {
      const auto& left = a.as<Dict>();
      const auto& right = b.as<Dict>();
      if (left.items.size() != right.items.size()) return false;
      return std::all_of(left.items.begin(), left.items.end(), [&](const auto& item) {
        const Value* other = right.find(item.first);
        return other != nullptr && equals(item.second, *other);
      });
    }
    case Kind::kRange: {
      const auto& left = a.as<Range>();
      const auto& right = b.as<Range>();
      if (left.length != right.length) return false;
      return left.length == 0 || (left.start == right.start && (left.length == 1 || left.step == right.step));
    }
    default:
      return false;
  }
}

bool ordered(Machine& machine, std::string_view symbol, const Value& a, const Value& b) {
  machine.step(1 + std::min(weight_of(a), weight_of(b)) / 4);
  std::optional<int> order;
  if (a.is_number() && b.is_number()) {
    order = compare_numbers(a, b);
    if (!order) return false;
  } else if (a.is(Kind::kString) && b.is(Kind::kString)) {
    order = a.bytes().compare(b.bytes());
  } else if (a.is_sequence() && a.kind() == b.kind()) {
    const auto& left = a.as<Sequence>().items;
    const auto& right = b.as<Sequence>().items;
    std::size_t i = 0;
    while (i < left.size() && i < right.size() && equals(left[i], right[i])) ++i;
    if (i < left.size() && i < right.size()) return ordered(machine, symbol, left[i], right[i]);
    order = left.size() < right.size() ? -1 : left.size() > right.size() ? 1 : 0;
  } else {
    if (a.is(Kind::kUndefined)) raise_undefined(a);
    if (b.is(Kind::kUndefined)) raise_undefined(b);
    raise("'{}' not supported between instances of '{}' and '{}'", symbol, type_name(a), type_name(b));
  }
  if (symbol == "<") return *order < 0;
  if (symbol == "<=") return *order <= 0;
  return symbol == ">" ? *order > 0 : *order >= 0;
}

bool contains(Machine& machine, const Value& container, const Value& item) {
  switch (container.kind()) {
    case Kind::kString:
      if (!item.is(Kind::kString)) raise("'in <string>' requires string as left operand, not {}", type_name(item));
      machine.step_bytes(container.bytes().size());
      return find_bytes(container.bytes(), item.bytes()) != std::string::npos;
    case Kind::kDict:
      require_hashable(item);
      machine.step(weight_of(item));
      return container.as<Dict>().find(item) != nullptr;
    case Kind::kNamespace:
      break;
    default:
      if (!is_iterable(container)) break;
      const auto next = iterate(machine, container);
      for (Value element; next(element);) {
        machine.step(std::min(weight_of(item), weight_of(element)));
        if (equals(element, item)) return true;
      }
      return false;
  }
  raise("argument of type '{}' is not iterable", type_name(container));
}

void require_hashable(const Value& value) {
  if (value.is(Kind::kList) || value.is(Kind::kDict)) raise("unhashable type: '{}'", type_name(value));
  if (value.is(Kind::kTuple)) {
    for (const Value& item : value.as<Sequence>().items) require_hashable(item);
  }
}

Value binary(Machine& machine, std::string_view symbol, const Value& a, const Value& b) {
  if (a.is_int() && b.is_int()) return integer_binary(symbol, a.as_int(), b.as_int());
  if (a.is_number() && b.is_number()) return float_binary(symbol, a.as_real(), b.as_real());
  if (symbol == "%" && a.is(Kind::kString)) return format_percent(machine, a.text(), b);
  if (a.is(Kind::kUndefined)) raise_undefined(a);
  if (b.is(Kind::kUndefined)) raise_undefined(b);
  if (symbol == "+") return add_others(machine, a, b);
  if (symbol == "*") return multiply_others(machine, a, b);
  unsupported(symbol, a, b);
}

Value negate(const Value& a) {
  if (a.is(Kind::kFloat)) return Value::real(-a.as_real());
  if (a.is(Kind::kUndefined)) raise_undefined(a);
  if (!a.is_int()) raise("bad operand type for unary -: '{}'", type_name(a));
  std::int64_t out = 0;
  return Value::integer(
      checked_int(__builtin_sub_overflow(std::int64_t{0}, a.as_int(), &out) ? std::nullopt : std::optional(out)));
}

Value posite(const Value& a) {
  if (a.is(Kind::kFloat)) return a;
  if (a.is(Kind::kUndefined)) raise_undefined(a);
  if (!a.is_int()) raise("bad operand type for unary +: '{}'", type_name(a));
  return Value::integer(a.as_int());
}

}  // namespace pagoda::text::jinja
