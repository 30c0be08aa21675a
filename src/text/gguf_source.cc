#include "text/gguf_source.h"

#include <algorithm>
#include <array>
#include <unordered_map>

#include "base/result.h"
#include "text/pre_tokenizer.h"

namespace pagoda::text {
namespace {

template <class... Args>
Error unsupported(fmt::format_string<Args...> text, Args&&... args) {
  return fail(ErrorCode::kTokenizerUnsupported, "tokenizer.json: {}",
              format_packed(text, fmt::make_format_args(args...)));
}

/// The name that stands for these steps: one that people use for its vocabulary's family first.
Result<std::string> name_of(const DeclaredTokenizer& declared, bool normal_form_c) {
  constexpr std::array<std::string_view, 8> kUsual = {"llama-bpe",   "qwen2",  "smollm", "gpt-2",
                                                      "deepseek-v3", "tekken", "gpt-4o", "glm4"};
  std::vector<std::string_view> names(kUsual.begin(), kUsual.end());
  const auto all = pre_tokenizer_names();
  names.insert(names.end(), all.begin(), all.end());
  for (const std::string_view name : names) {
    const PreTokenizerRules& rules = *find_pre_tokenizer(name);
    if (rules.cuts == declared.cuts && rules.normal_form_c == normal_form_c &&
        rules.ignore_merges == declared.model.ignore_merges) {
      return std::string(name);
    }
  }
  return unsupported("no name in tokenizer.ggml.pre stands for its pre_tokenizer of {} steps with these patterns",
                     declared.cuts.size());
}

Status refuse_other_rules(const ModelRules& rules) {
  if (rules.kind != ModelRules::Kind::kBytePairs) return unsupported("its model is no BPE");
  if (!rules.word_prefix.empty() || !rules.word_suffix.empty()) {
    return unsupported("its model marks the ends of words, for which there are no keys");
  }
  return Ok{};
}

std::vector<std::string> merges_of(const ModelRules& rules) {
  std::vector<std::string> merges;
  merges.reserve(static_cast<std::size_t>(rules.merges.size()) / 2);
  for (std::int32_t i = 0; i + 1 < rules.merges.size(); i += 2) {
    merges.push_back(std::string(rules.merges[i]) + " " + std::string(rules.merges[i + 1]));
  }
  return merges;
}

Status byte_level(const DeclaredTokenizer& declared, TokenizerSource& out) {
  out.kind = "gpt2";
  bool normal_form_c = false;
  for (const NormalizerRule& rule : declared.normalizer) {
    if (rule.kind != NormalizerRule::Kind::kForm || rule.form != NormalForm::kC || normal_form_c) {
      return unsupported(
          "its normalizer is more than Unicode's form C, which is all that byte-level BPE has a key for");
    }
    normal_form_c = true;
  }
  out.pre = PAGODA_TRY(name_of(declared, normal_form_c));
  out.merges = merges_of(declared.model);
  return Ok{};
}

/// A token that an earlier merge makes has the higher score; bytes and what no merge makes have scores below all.
Status marked_spaces(const DeclaredTokenizer& declared, TokenizerSource& out) {
  out.kind = "llama";
  bool prepends = false;
  for (const NormalizerRule& rule : declared.normalizer) {
    const bool marks = rule.kind == NormalizerRule::Kind::kReplace && rule.pattern == " " && rule.content == "▁";
    const bool prefix = rule.kind == NormalizerRule::Kind::kPrepend && rule.content == "▁";
    if (!marks && !prefix) return unsupported("its normalizer does more than mark spaces, for which there are no keys");
    prepends |= prefix;
  }
  for (const Cut& cut : declared.cuts) {
    // A cut before or behind marks changes nothing that merges across words would not tell: the comparison sees it.
    const bool marks = cut.kind == Cut::Kind::kMarkSpaces && cut.pattern == "▁";
    const bool at_marks = cut.kind == Cut::Kind::kLiteral && (cut.pattern == " " || cut.pattern == "▁");
    if (!marks && !at_marks) return unsupported("its pre_tokenizer cuts words, which tokenizers with scores do not");
    prepends |= marks && cut.prepend != PrependScheme::kNever;
  }
  out.add_space_prefix = prepends;
  const StringPool& merges = declared.model.merges;
  std::unordered_map<std::string, std::int32_t> rank;
  for (std::int32_t i = 0; i + 1 < merges.size(); i += 2) {
    rank.try_emplace(std::string(merges[i]) + std::string(merges[i + 1]), i / 2);
  }
  const auto count = static_cast<float>(merges.size() / 2);
  out.scores.clear();
  for (const std::string& token : out.tokens) {
    const auto found = rank.find(token);
    out.scores.push_back(found == rank.end() ? -count - 1 : -static_cast<float>(found->second));
  }
  return Ok{};
}

/// GGUF names one id for each way an answer ends; the texts of others are known to mean it.
void name_ends(const DeclaredTokenizer& declared, TokenizerSource& out) {
  for (const std::int32_t id : declared.end_ids) {
    if (!out.eos) {
      out.eos = id;
    } else if (*out.eos != id && !out.eot) {
      out.eot = id;
    } else if (*out.eos != id && out.eot != std::optional<std::int64_t>(id) && !out.eom) {
      out.eom = id;
    }
  }
}

constexpr std::array kLines = {
    "Hello, world! It's the 3rd of 12345 tests; they're 99.5 % done.",
    "  leading, trailing and   many    spaces  \t\ttabs\n\n\nand lines \r\n  \n",
    "def f(x):\n    return x**2 + {'a': [1, 2, 3]}['a'][0]  # code\n\tif (a != b) { c->d(); }",
    "Größe, naïve café, Ærøskøbing, İstanbul, żółć, ﬁn, e\u0301tude",
    "Привет, мир! Ελληνικά και νέα. שלום עולם. مرحبا بالعالم ١٢٣",
    "你好,世界。こんにちは世界、カタカナ。안녕하세요 세계",
    "नमस्ते दुनिया สวัสดีชาวโลก ជំរាបសួរ",
    "😀👩‍👩‍👧‍👦🏳️‍🌈 ½ ² ∑ ≤ → — “quotes” …",
    "CamelCase HTTPServer snake_case kebab-case 'll 'S I'D we'Ve 1,000,000 0x1F",
};

std::string shown(std::string_view text) {
  std::string out;
  for (const char c : text.substr(0, 60)) out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  return out;
}

Error unequal(const std::string& what) {
  return fail(ErrorCode::kTokenizerUnsupported,
              "the tokenizer cannot be said in the other kind of checkpoint: {} would differ", what);
}

Status agree(const Tokenizer& wanted, const Tokenizer& found, std::string_view text) {
  const auto a = wanted.encode(text);
  const auto b = found.encode(text);
  if (a.ok() == b.ok() && (!a.ok() || *a == *b)) return Ok{};
  return unequal(pagoda::format("the ids of \"{}\"", shown(text)));
}

}  // namespace

Result<TokenizerSource> to_gguf_source(const TokenizerSource& source) {
  if (!source.declared) return source;
  const DeclaredTokenizer& declared = *source.declared;
  PAGODA_TRY(refuse_other_rules(declared.model));
  TokenizerSource out;
  out.tokens = source.tokens;
  out.types = source.types;
  out.bos = source.bos;
  out.eos = source.eos;
  out.padding = source.padding;
  if (declared.model.unknown >= 0) out.unknown = declared.model.unknown;
  PAGODA_TRY(declared.model.byte_level ? byte_level(declared, out) : marked_spaces(declared, out));
  const auto only = [](const std::vector<std::int32_t>& ids, std::optional<std::int64_t> id) {
    return ids.empty() || (ids.size() == 1 && (!id || *id == ids[0]));
  };
  if (!only(declared.prefix, out.bos) || !only(declared.suffix, out.eos)) {
    return unsupported("its post_processor puts more around a text than BOS and EOS");
  }
  if (!declared.prefix.empty()) out.bos = declared.prefix[0];
  if (!declared.suffix.empty()) out.eos = declared.suffix[0];
  out.add_bos = !declared.prefix.empty();
  out.add_eos = !declared.suffix.empty();
  name_ends(declared, out);
  return out;
}

Status same_tokens(const Tokenizer& wanted, const Tokenizer& found) {
  if (!std::ranges::equal(wanted.prefix_ids(), found.prefix_ids()) ||
      !std::ranges::equal(wanted.suffix_ids(), found.suffix_ids())) {
    return unequal("what is put around a text");
  }
  if (!std::ranges::equal(wanted.end_of_generation_ids(), found.end_of_generation_ids())) {
    return unequal("the tokens that end an answer");
  }
  for (const char* line : kLines) PAGODA_TRY(agree(wanted, found, line));
  for (std::int32_t id = 0; id < wanted.vocabulary_size(); ++id) {
    PAGODA_TRY(agree(wanted, found, wanted.piece(id)));
  }
  return Ok{};
}

}  // namespace pagoda::text
