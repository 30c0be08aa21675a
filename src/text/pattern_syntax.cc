#include "text/pattern_syntax.h"

#include <algorithm>
#include <vector>

#include "base/result.h"
#include "text/unicode_tables.h"

namespace pagoda::text {
namespace {

// White_Space. PCRE2's own \s also takes U+180E, which has not been a space since Unicode 6.3.
constexpr std::string_view kSpaces =
    R"(\t-\r \x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";
constexpr std::string_view kNoSpaces =
    R"(\x{0}-\x{8}\x{E}-\x{1F}!-\x{84}\x{86}-\x{9F}\x{A1}-\x{167F}\x{1681}-\x{1FFF}\x{200B}-\x{2027})"
    R"(\x{202A}-\x{202E}\x{2030}-\x{205E}\x{2060}-\x{2FFF}\x{3001}-\x{10FFFF})";

constexpr std::string_view kCategories =
    "L Lu Ll Lt Lm Lo M Mn Mc Me N Nd Nl No P Pc Pd Ps Pe Pi Pf Po S Sm Sc Sk So "
    "Z Zs Zl Zp C Cc Cf Cn Co Cs";

bool is_category(std::string_view name) {
  for (std::string_view rest = kCategories; !rest.empty();) {
    const std::size_t end = std::min(rest.find(' '), rest.size());
    if (rest.substr(0, end) == name) return true;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return false;
}

/// The inside of a bracket expression for a general category or a script. PCRE2 takes a bare script name for the
/// characters that are used with the script; Oniguruma for those that belong to it.
std::string property(std::string_view name) {
  if (name == "Alphabetic") return R"(\p{Alphabetic})" + added_since_unicode_14("L");
  const std::string added = added_since_unicode_14(name);
  return (is_category(name) ? "\\p{" : "\\p{sc:") + std::string(name) + "}" + added;
}

/// Letters, marks, digits and connectors. Outside of brackets, Oniguruma takes some digits of Latin-1 for word
/// characters too, and all other superscripts and fractions for none.
std::string word_characters(bool in_brackets) {
  return property("Alphabetic") + property("M") + property("Nd") + property("Nl") + property("Pc") +
         (in_brackets ? "" : R"(\x{B2}\x{B3}\x{B9}\x{BC}-\x{BE})");
}

/// One pass over a pattern.
class Translator {
 public:
  explicit Translator(std::string_view pattern) : pattern_(pattern) {}

  Result<std::string> run() {
    while (at_ < pattern_.size()) {
      const char c = pattern_[at_];
      note_item(c);
      if (c == '\\') {
        PAGODA_TRY(escape());
      } else if (c == '[') {
        PAGODA_TRY(open_class());
      } else if (c == ']' && depth_ > 0) {
        close_class();
      } else if (depth_ > 0) {
        PAGODA_TRY(class_character(c));
      } else if (c == '(') {
        PAGODA_TRY(group());
      } else if (c == '{') {
        interval();
      } else {
        put(c);
      }
    }
    out_.append(groups_.front().options, ')');
    return std::move(out_);
  }

 private:
  void put(char c) {
    out_ += c;
    ++at_;
  }

  Error refuse(std::string_view what) const {
    return fail(ErrorCode::kTokenizerUnsupported, "the expression \"{}\" has {} at byte {}, which is not supported",
                pattern_, what, at_);
  }

  /// `inside` as a class of its own, or as a part of the class that is open.
  void put_class(const std::string& inside, bool negated) {
    out_ += depth_ > 0 ? inside : (negated ? "[^" : "[") + inside + "]";
  }

  Status escape() {
    const std::string_view rest = pattern_.substr(at_ + 1);
    if (rest.empty()) return refuse("a lone backslash");
    const char c = rest[0];
    if ((c == 'p' || c == 'P') && rest.substr(1).starts_with("{")) return property_escape(c == 'P');
    if (c == 'x' || c == 'u') return code_point_escape(rest);
    if (std::string_view("sSdDwWhHbB").find(c) != std::string_view::npos) return class_escape(c);
    if (c == 'R' && depth_ == 0) {  // PCRE2's own does not give a character back once it has taken it
      out_ += R"((?>\r\n|[\n-\r\x{85}\x{2028}\x{2029}]))";
      at_ += 2;
      return Ok{};
    }
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '1' && c <= '9');
    constexpr std::string_view kSame = "nrtfaeAzZX";
    if (letter && kSame.find(c) == std::string_view::npos && c != 'v') return refuse("an escape");
    out_ += c == 'v' ? std::string("\\x{B}") : std::string{'\\', c};
    at_ += 2;
    return Ok{};
  }

  Status class_escape(char c) {
    const bool negated = c >= 'A' && c <= 'Z';
    const char kind = static_cast<char>(negated ? c - 'A' + 'a' : c);
    if (kind == 's') {
      put_class(std::string(depth_ > 0 && negated ? kNoSpaces : kSpaces), negated);
    } else if (kind == 'b') {
      if (depth_ > 0) return refuse("\\b in a class");
      const std::string word = "[" + word_characters(false) + "]";
      const std::string same = "(?<=" + word + ")(?=" + word + ")|(?<!" + word + ")(?!" + word + ")";
      const std::string edge = "(?<=" + word + ")(?!" + word + ")|(?<!" + word + ")(?=" + word + ")";
      out_ += "(?:" + (negated ? same : edge) + ")";
    } else {
      if (depth_ > 0 && negated) return refuse("a negated class in a class");
      put_class(kind == 'd'   ? property("Nd")
                : kind == 'w' ? word_characters(depth_ > 0)
                              : std::string("0-9a-fA-F"),
                negated);
    }
    at_ += 2;
    return Ok{};
  }

  Status property_escape(bool negated) {
    const std::size_t end = pattern_.find('}', at_);
    if (end == std::string_view::npos) return refuse("an unclosed property");
    std::string_view name = pattern_.substr(at_ + 3, end - at_ - 3);
    if (name.starts_with('^')) {
      negated = !negated;
      name.remove_prefix(1);
    }
    const bool plain = !name.empty() && std::ranges::all_of(name, [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    });
    if (!plain) return refuse("a property's name");
    if (negated && depth_ > 0) {
      if (!is_category(name)) return refuse("a negated script in a class");
      out_ += "\\P{" + std::string(name) + "}";
    } else {
      put_class(property(name), negated);
    }
    at_ = end + 1;
    return Ok{};
  }

  /// `\xHH`, `\x{H…}` and `\uHHHH`.
  Status code_point_escape(std::string_view rest) {
    std::size_t begin = 1;
    std::size_t length = rest[0] == 'u' ? 4 : 2;
    const bool braces = rest.substr(1).starts_with("{");
    if (braces) {
      if (rest[0] == 'u') return refuse("an escape");
      begin = 2;
      length = rest.find('}') - begin;
    }
    const std::string_view digits = rest.substr(begin, std::min<std::size_t>(length, 9));
    const bool hex = !digits.empty() && digits.size() == length && length <= 8 &&
                     digits.find_first_not_of("0123456789abcdefABCDEF") == std::string_view::npos;
    if (!hex) return refuse("an escape");
    out_ += "\\x{" + std::string(digits) + "}";
    at_ += 1 + begin + length + (braces ? 1 : 0);
    return Ok{};
  }

  /// A class in a class means both together, so that the inner brackets can go.
  Status open_class() {
    if (depth_ > 0) {
      if (pattern_.substr(at_).starts_with("[:")) return posix_class();
      if (pattern_.substr(at_).starts_with("[^")) return refuse("a negated class in a class");
      ++depth_;
      ++at_;
      return Ok{};
    }
    depth_ = 1;
    put('[');
    if (at_ < pattern_.size() && pattern_[at_] == '^') put('^');
    if (at_ < pattern_.size() && pattern_[at_] == ']') {
      out_ += "\\]";
      ++at_;
    }
    return Ok{};
  }

  void close_class() {
    ++at_;
    if (--depth_ == 0) out_ += ']';
  }

  Status posix_class() {
    const std::size_t end = pattern_.find(":]", at_);
    const std::string_view name = end == std::string_view::npos ? "" : pattern_.substr(at_ + 2, end - at_ - 2);
    if (name == "digit") {
      out_ += property("Nd");
    } else if (name == "space") {
      out_ += kSpaces;
    } else if (name == "punct") {
      out_ += property("P") + property("S");
    } else {
      return refuse("a class with a name");
    }
    at_ = end + 2;
    return Ok{};
  }

  Status class_character(char c) {
    if (c == '&' && pattern_.substr(at_).starts_with("&&")) return refuse("an intersection of classes");
    put(c);
    return Ok{};
  }

  /// `(?m` is Perl's `(?s`: the dot takes line ends too. `a(?i)b|c` is `a(?i:b|c)`.
  Status group() {
    put('(');
    if (at_ >= pattern_.size() || pattern_[at_] != '?') return Ok{};
    put('?');
    const std::string_view rest = pattern_.substr(at_);
    for (const std::string_view known : {":", "=", "!", ">", "<=", "<!"}) {
      if (!rest.starts_with(known)) continue;
      out_ += known;
      at_ += known.size();
      return Ok{};
    }
    while (at_ < pattern_.size() && std::string_view("im-").find(pattern_[at_]) != std::string_view::npos) {
      out_ += pattern_[at_] == 'm' ? 's' : pattern_[at_];
      ++at_;
    }
    if (at_ >= pattern_.size() || (pattern_[at_] != ':' && pattern_[at_] != ')')) return refuse("a kind of group");
    if (pattern_[at_] == ')') {
      out_ += ':';
      ++at_;
      groups_.pop_back();
      ++groups_.back().options;
    }
    return Ok{};
  }

  /// Where the item begins that a quantifier after it would repeat.
  void note_item(char c) {
    if (depth_ > 0) return;
    if (c == '(') groups_.push_back({.begin = out_.size()});
    if (c == ')' && groups_.size() > 1) {
      out_.append(groups_.back().options, ')');
      item_ = groups_.back().begin;
      groups_.pop_back();
    }
    const bool continues = (static_cast<unsigned char>(c) & 0xC0) == 0x80;
    if (!continues && std::string_view("()*+?{").find(c) == std::string_view::npos) item_ = out_.size();
  }

  /// `{,n}` is `{0,n}`. A plus after an interval repeats the whole, as does a question mark after a single number:
  /// elsewhere they make a quantifier possessive or lazy.
  void interval() {
    const std::size_t end = pattern_.find('}', at_);
    const std::string_view inside = end == std::string_view::npos ? "" : pattern_.substr(at_ + 1, end - at_ - 1);
    const bool numbers = !inside.empty() && inside.find_first_not_of("0123456789,") == std::string_view::npos;
    if (!numbers || inside == ",") {
      item_ = out_.size();
      out_ += "\\{";
      ++at_;
      return;
    }
    out_ += '{';
    if (inside.starts_with(',')) out_ += '0';
    out_.append(inside).append("}");
    at_ = end + 1;
    const char next = at_ < pattern_.size() ? pattern_[at_] : '\0';
    if (next == '+' || (next == '?' && inside.find(',') == std::string_view::npos)) {
      out_.insert(item_, "(?:");
      out_.append(")").append(1, next);
      ++at_;
    }
  }

  std::string_view pattern_;
  std::size_t at_ = 0;
  int depth_ = 0;         ///< of brackets
  std::size_t item_ = 0;  ///< where the last item begins in out_
  struct Group {
    std::size_t begin = 0;    ///< in out_
    std::size_t options = 0;  ///< groups for options in it, which end where it ends
  };
  std::vector<Group> groups_{Group{}};  ///< those that are open; the first is the whole
  std::string out_;
};

}  // namespace

Result<std::string> translate_pattern(std::string_view pattern) { return Translator(pattern).run(); }

std::string literal_pattern(std::string_view literal) {
  std::string out;
  for (const char c : literal) {
    const bool special =
        c > 0 && c < 0x7F && !(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && c > 0x20;
    if (special) out += '\\';
    if (c == '\0') {
      out += "\\x{0}";
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace pagoda::text
