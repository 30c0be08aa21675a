// The table of pre-tokenizers: names as GGUF files write them, patterns as the vocabularies' own tokenizer.json do.
#include <map>

#include "text/pre_tokenizer.h"

namespace pagoda::text {
namespace {

using Kind = Cut::Kind;

// Parts that many patterns share.
const std::string kContraction = "(?i:'s|'t|'re|'ve|'m|'ll|'d)";
const std::string kSpaces = R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
const std::string kWord = R"([^\r\n\p{L}\p{N}]?\p{L}+)";
const std::string kSymbols = R"(| ?[^\s\p{L}\p{N}]+[\r\n]*)";
const std::string kLower = R"([\p{Ll}\p{Lm}\p{Lo}\p{M}])";
const std::string kUpper = R"([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])";

const std::string kGpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
const std::string kLlama3 = kContraction + "|" + kWord + R"(|\p{N}{1,3})" + kSymbols + kSpaces;
const std::string kQwen2 = kContraction + "|" + kWord + R"(|\p{N})" + kSymbols + kSpaces;

/// Words in which a capital begins a new one, followed by `suffix`.
std::string cased_words(const std::string& upper, const std::string& lower, const std::string& suffix) {
  const std::string lead = R"([^\r\n\p{L}\p{N}]?)";
  return lead + upper + "*" + lower + "+" + suffix + "|" + lead + upper + "+" + lower + "*" + suffix;
}

const std::string kSlashSymbols = R"(| ?[^\s\p{L}\p{N}]+[\r\n/]*)";
const std::string kGpt4o = cased_words(kUpper, kLower, kContraction + "?") + R"(|\p{N}{1,3})" + kSlashSymbols + kSpaces;

// The letters that DeepSeek's first vocabularies name one by one.
const std::string kDeepSeekLetters =
    R"([A-Za-z\x{00B5}\x{00C0}-\x{00D6}\x{00D8}-\x{00F6}\x{00F8}-\x{01BA}\x{01BC}-\x{01BF}\x{01C4}-\x{0293})"
    R"(\x{0295}-\x{02AF}\x{0370}-\x{0373}\x{0376}\x{0377}\x{037B}-\x{037D}\x{037F}\x{0386}\x{0388}-\x{038A})"
    R"(\x{038C}\x{038E}-\x{03A1}\x{03A3}-\x{03F5}\x{03F7}-\x{0481}\x{048A}-\x{052F}\x{0531}-\x{0556})"
    R"(\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF}\x{1D00}-)"
    R"(\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45})"
    R"(\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D}\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6})"
    R"(-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-)"
    R"(\x{1FEC}\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D})"
    R"(\x{2124}\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F}\x{2145}-\x{2149})"
    R"(\x{214E}\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4}\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-)"
    R"(\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787}\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF})"
    R"(\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}\x{10400}-\x{1044F}\x{104B0}-)"
    R"(\x{104D3}\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF}\x{1E900}-)"
    R"(\x{1E943}]+)";
const std::string kDeepSeekHan = R"([\x{4E00}-\x{9FA5}\x{0800}-\x{4E00}\x{AC00}-\x{D7FF}]+)";
const std::string kDeepSeekPunctuation = R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+)";
const std::string kDeepSeekWord = kDeepSeekPunctuation + R"(|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+)";
const std::string kDeepSeek3 = kDeepSeekWord + R"(| ?[\p{P}\p{S}]+[\r\n]*)" + kSpaces;
const std::string kHanKana = R"([\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)";
const std::string kEastAsian =
    R"([\x{4E00}-\x{9FFF}\x{3400}-\x{4DBF}\x{8C48}-\x{FAFF}\x{3040}-\x{309F}\x{30A0}-\x{30FF}\x{FF65}-)"
    R"(\x{FF9F}\x{2F00}-\x{2FDF}\x{0E40}-\x{0E7F}\x{0E80}-\x{0EFF}\x{1780}-\x{17FF}\x{1000}-\x{109F})"
    R"(\x{AA60}-\x{AA7F}\x{A9E0}-\x{A9FF}\x{AC00}-\x{D7AF}\x{1100}-\x{11FF}]+)";

// Letters and marks but no Han, by naming all that they are not.
const std::string kUpperNoHan = R"([^\p{Ll}\p{N}\p{P}\p{S}\p{Z}\p{C}\p{Han}])";
const std::string kLowerNoHan = R"([^\p{Lu}\p{Lt}\p{N}\p{P}\p{S}\p{Z}\p{C}\p{Han}])";

const std::string kBloom = R"( ?[^(\s|.,!?\x{2026}\x{3002}\x{FF0C}\x{3001}\x{0964}\x{06D4}\x{060C})]+)";
const std::string kYoutu =
    R"([\x{AC00}-\x{D7A3}\x{3131}-\x{318E}]+|[\x{FF01}\x{2026}\x{201C}\x{201D}\x{2018}\x{2019}\x{2014})"
    R"(\x{FF1A}\x{FF1B}\x{FF0C}\x{3001}-\x{303F}\x{FE30}-\x{FE4F}]+|[\x{3105}-\x{312F}]+|[\x{4E00}-\x{9FA5})"
    R"(\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)";

Cut pattern(std::string text) { return {.kind = Kind::kPattern, .pattern = std::move(text)}; }
Cut cut(Kind kind) { return {.kind = kind, .pattern = {}}; }

using Table = std::map<std::string_view, PreTokenizerRules>;

void add(Table& table, std::initializer_list<std::string_view> names, const PreTokenizerRules& rules) {
  for (const std::string_view name : names) table.emplace(name, rules);
}

void add_gpt2_kinds(Table& t) {
  const Cut gpt2 = pattern(kGpt2);
  const Cut digit = pattern(R"(\p{N})");
  add(t, {"gpt-2", "phi-2", "gigachat", "a.x-4.0", "mellum", "jais", "trillion", "granite-docling", "exaone4"},
      {.cuts = {gpt2}});
  add(t, {"mpt", "olmo"}, {.cuts = {gpt2}, .normal_form_c = true});
  add(t, {"starcoder", "refact", "smollm", "codeshell", "exaone", "minerva-7b", "mellum2"}, {.cuts = {digit, gpt2}});
  add(t, {"command-r"}, {.cuts = {digit, gpt2}, .normal_form_c = true});
  add(t, {"default"},
      {.cuts = {pattern(R"([\p{P}\$\+<=>\^~\|]+)"), gpt2, pattern(R"(\p{N}+)"), pattern("[0-9][0-9][0-9]")}});
  add(t, {"falcon"},
      {.cuts = {pattern(R"([\p{P}\$\+<=>\^~\|`]+)"), gpt2, cut(Kind::kByteDigits), pattern("[0-9][0-9][0-9]")}});
  add(t, {"chameleon"},
      {.cuts = {pattern("<sentinel:[0-9]+>"), pattern("(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z"),
                pattern(R"(([\t\n]|    |  ))"), digit, pattern(R"([\p{P}!-/:-@\[-`{-~])"), gpt2},
       .add_bos = true});
}

void add_llama3_kinds(Table& t) {
  const PreTokenizerRules llama3 = {.cuts = {pattern(kLlama3)}};
  add(t, {"llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano"},
      {.cuts = llama3.cuts, .ignore_merges = true, .add_bos = true});
  add(t, {"glm4", "glm5"}, {.cuts = llama3.cuts, .ignore_merges = true});
  add(t, {"chatglm-bpe", "dbrx", "smaug-bpe"}, llama3);
  add(t, {"minicpm5"},
      {.cuts = {pattern(R"(\p{N}{1,3})"), pattern(kContraction + "|" + kWord + R"(|\p{N}+)" + kSymbols + kSpaces)},
       .ignore_merges = true});
  std::string halving = kContraction + "|" + kWord + R"(|\p{N}{1,3})" + kSymbols + R"(|\s*[\r\n]+)";
  for (const char* count : {"512", "256", "128", "64", "32", "16", "8", "4", "1,2"}) {
    halving += std::string(R"(|\s{)") + count + R"(}(?!\S))";
  }
  add(t, {"jais-2"}, {.cuts = {pattern(halving + R"(|\s{1})")}});
}

void add_qwen_kinds(Table& t) {
  const Cut qwen2 = pattern(kQwen2);
  add(t, {"qwen2", "deepseek-r1-qwen", "megrez", "stablelm2", "kormo", "f2llmv2"},
      {.cuts = {qwen2}, .normal_form_c = true});
  add(t, {"hunyuan", "solar-open", "grok-2"}, {.cuts = {qwen2}});
  add(t, {"laguna"}, {.cuts = {pattern(R"([^\n]+|[\n]+)"), qwen2}});
  add(t, {"ufakzeka"}, {.cuts = {pattern(kWord + R"(|\p{N})" + kSymbols + kSpaces)}});
  add(t, {"qwen35"},
      {.cuts = {pattern(kContraction + R"(|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*)" +
                        kSpaces)}});
  add(t, {"seed-coder"},
      {.cuts = {pattern(kContraction + "|" + kWord + R"(|\p{N}| ?[^\s\p{L}\p{N}\r\n]+)" + kSpaces)}});
  add(t, {"bailingmoe", "bailingmoe2", "llada-moe"},
      {.cuts = {pattern("'(?i:[sdmt]|ll|ve|re)|" + kWord + R"(|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*)" +
                        R"(|\s*[\r\n]|\s+(?!\S)|\s+)")}});
  add(t, {"exaone-moe"},
      {.cuts = {pattern(kContraction + R"(|[^\r\n\p{L}\p{N}]?\p{L}[\p{L}\p{M}]*+(?: \p{L}[\p{L}\p{M}]*+)*+)" +
                        R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+)")}});
}

void add_deepseek_kinds(Table& t) {
  const Cut digits = pattern(R"(\p{N}{1,3})");
  const Cut digit = pattern(R"(\p{N})");
  const Cut newline = pattern(R"([\r\n])");
  add(t, {"deepseek-llm"},
      {.cuts = {newline, pattern(R"(\s?)" + kDeepSeekLetters),
                pattern(R"(\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+)"),
                pattern(R"(\s+$)"), pattern(kDeepSeekHan), digit}});
  add(t, {"deepseek-coder"},
      {.cuts = {newline, pattern(R"(\s?\p{L}+)"), pattern(R"(\s?\p{P}+)"), pattern(kDeepSeekHan), digit}});
  add(t, {"deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"},
      {.cuts = {digits, pattern(kHanKana), pattern(kDeepSeek3)}});
  add(t, {"spark2_5"},
      {.cuts = {digits, pattern(kHanKana), pattern(kDeepSeekWord + R"(| ?[\p{P}\p{S}]+|[\r\n]|\s+(?!\S)|\s+)"),
                digit}});
  add(t, {"afmoe"}, {.cuts = {cut(Kind::kDigitGroups), pattern(kEastAsian), pattern(kDeepSeek3)}});
}

void add_cased_kinds(Table& t) {
  add(t, {"gpt-4o", "llama4", "kanana2", "talkie"}, {.cuts = {pattern(kGpt4o)}});
  add(t, {"minimax-m2"}, {.cuts = {pattern(kGpt4o)}, .normal_form_c = true});
  add(t, {"granite-embed-multi-97m"}, {.cuts = {pattern(kGpt4o)}, .ignore_merges = true});
  add(t, {"tekken"},
      {.cuts = {pattern(cased_words(kUpper, kLower, "") + R"(|\p{N})" + kSlashSymbols + kSpaces)},
       .ignore_merges = true,
       .add_bos = true});
  add(t, {"tiny_aya", "cohere2moe"}, {.cuts = {cut(Kind::kDigitGroupsWord), pattern(kGpt4o)}});
  add(t, {"youtu"},
      {.cuts = {pattern(kYoutu),
                pattern(cased_words(kUpper, kLower, kContraction + "?") + R"(|\p{N})" + kSlashSymbols + kSpaces)},
       .ignore_merges = true});
  add(t, {"kimi-k2"},
      {.cuts = {pattern(R"(\p{Han}+|)" + cased_words(kUpperNoHan, kLowerNoHan, kContraction + "?") + R"(|\p{N}{1,3})" +
                        kSymbols + kSpaces)}});
}

Table make_table() {
  Table t;
  add_gpt2_kinds(t);
  add_llama3_kinds(t);
  add_qwen_kinds(t);
  add_deepseek_kinds(t);
  add_cased_kinds(t);
  add(t, {"poro-chat", "bloom", "gpt3-finnish"}, {.cuts = {pattern(kBloom)}});
  add(t, {"viking"}, {.cuts = {pattern(kBloom), pattern(R"(\p{N})")}});
  add(t, {"superbpe"}, {.cuts = {pattern(R"(\p{N}+)"), cut(Kind::kDigitGroups)}});
  return t;
}

const Table& table() {
  static const Table kTable = make_table();
  return kTable;
}

}  // namespace

const std::string& gpt2_pattern() { return kGpt2; }

const PreTokenizerRules* find_pre_tokenizer(std::string_view name) {
  const auto found = table().find(name);
  return found == table().end() ? nullptr : &found->second;
}

std::vector<std::string_view> pre_tokenizer_names() {
  std::vector<std::string_view> names;
  for (const auto& [name, rules] : table()) names.push_back(name);
  return names;
}

}  // namespace pagoda::text
