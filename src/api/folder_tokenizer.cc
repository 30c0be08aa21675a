#include "api/folder_tokenizer.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "api/file_keys.h"
#include "base/output.h"
#include "base/utf8.h"
#include "text/gguf_source.h"
#include "text/pre_tokenizer.h"
#include "text/tokenizer_json.h"

namespace pagoda::api {
namespace {

using Json = nlohmann::json;
using text::TokenizerSource;
using text::TokenType;

Error unsupported(const std::string& what) {
  return fail(ErrorCode::kTokenizerUnsupported, "the tokenizer cannot be written as a tokenizer.json: {}", what);
}

TokenType type_of(const TokenizerSource& source, std::size_t id) {
  return id < source.types.size() ? static_cast<TokenType>(source.types[id]) : TokenType::kNormal;
}

bool stands_apart(TokenType type) { return type == TokenType::kControl || type == TokenType::kUserDefined; }

/// Tokens that fill the vocabulary up to the embedding's rows are nobody's.
std::size_t used_tokens(const TokenizerSource& source) {
  std::size_t count = source.tokens.size();
  while (count > 0 && type_of(source, count - 1) == TokenType::kUnused) --count;
  return count;
}

Json added_tokens(const TokenizerSource& source) {
  Json list = Json::array();
  for (std::size_t id = 0; id < source.tokens.size(); ++id) {
    const TokenType type = type_of(source, id);
    if (!stands_apart(type)) continue;
    list.push_back({{"id", id},
                    {"content", source.tokens[id]},
                    {"single_word", false},
                    {"lstrip", false},
                    {"rstrip", false},
                    {"normalized", false},
                    {"special", type == TokenType::kControl}});
  }
  return list;
}

Json vocabulary(const TokenizerSource& source) {
  Json object = Json::object();
  for (std::size_t id = 0; id < used_tokens(source); ++id) {
    if (!stands_apart(type_of(source, id))) object[source.tokens[id]] = id;
  }
  return object;
}

Json pair_of(std::string_view merge) {
  const std::size_t space = merge.find(' ', 1);
  if (space == std::string_view::npos) return nullptr;
  return Json::array({std::string(merge.substr(0, space)), std::string(merge.substr(space + 1))});
}

Json bpe(const TokenizerSource& source, Json merges) {
  return {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token", nullptr},
          {"continuing_subword_prefix", nullptr},
          {"end_of_word_suffix", nullptr},
          {"fuse_unk", false},
          {"byte_fallback", false},
          {"ignore_merges", false},
          {"vocab", vocabulary(source)},
          {"merges", std::move(merges)}};
}

Status add_byte_level(const TokenizerSource& source, Json& json) {
  const text::PreTokenizerRules* const rules = text::find_pre_tokenizer(source.pre.empty() ? "default" : source.pre);
  if (rules == nullptr) return unsupported("its pre-tokenizer " + source.pre + " is not known");
  Json steps = Json::array();
  for (const text::Cut& cut : rules->cuts) {
    if (cut.kind != text::Cut::Kind::kPattern) {
      return unsupported("its pre-tokenizer " + source.pre + " cuts in a way that no regular expression does");
    }
    steps.push_back(
        {{"type", "Split"}, {"pattern", {{"Regex", cut.pattern}}}, {"behavior", "Isolated"}, {"invert", false}});
  }
  const Json bytes = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}};
  steps.push_back(bytes);
  json["normalizer"] = rules->normal_form_c ? Json{{"type", "NFC"}} : Json(nullptr);
  json["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", std::move(steps)}};
  json["decoder"] = bytes;
  Json merges = Json::array();
  for (const std::string& merge : source.merges) merges.push_back(pair_of(merge));
  json["model"] = bpe(source, std::move(merges));
  json["model"]["ignore_merges"] = rules->ignore_merges;
  return Ok{};
}

/// Every way to put a token together from two others, those of the highest score first: what merging by scores does.
Json merges_by_score(const TokenizerSource& source) {
  std::unordered_map<std::string_view, std::size_t> plain;
  for (std::size_t id = 0; id < source.tokens.size(); ++id) {
    const TokenType type = type_of(source, id);
    if (type == TokenType::kNormal || type == TokenType::kUserDefined) plain.emplace(source.tokens[id], id);
  }
  struct Merge {
    float score;
    std::size_t left, right;
  };
  std::vector<Merge> merges;
  for (std::size_t id = 0; id < source.tokens.size(); ++id) {
    if (type_of(source, id) != TokenType::kNormal) continue;
    const std::string_view token = source.tokens[id];
    const std::size_t begin = merges.size();
    for (std::size_t cut = 1; cut < token.size(); ++cut) {
      if ((static_cast<unsigned char>(token[cut]) & 0xc0) == 0x80) continue;  // inside a character
      const auto left = plain.find(token.substr(0, cut));
      const auto right = plain.find(token.substr(cut));
      if (left == plain.end() || right == plain.end()) continue;
      merges.push_back({source.scores[id], left->second, right->second});
    }
    std::sort(merges.begin() + static_cast<std::ptrdiff_t>(begin), merges.end(),
              [](const Merge& a, const Merge& b) { return std::pair(a.left, a.right) < std::pair(b.left, b.right); });
  }
  std::ranges::stable_sort(merges, std::greater<>(), &Merge::score);
  Json list = Json::array();
  for (const Merge& merge : merges) {
    list.push_back(Json::array({source.tokens[merge.left], source.tokens[merge.right]}));
  }
  return list;
}

Status add_marked_spaces(const TokenizerSource& source, Json& json) {
  if (source.scores.size() != source.tokens.size()) return unsupported("not every token has a score");
  const bool prefix = source.add_space_prefix.value_or(true);
  Json normalizers = Json::array();
  if (prefix) normalizers.push_back({{"type", "Prepend"}, {"prepend", "▁"}});
  normalizers.push_back({{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "▁"}});
  Json decoders = Json::array({{{"type", "Replace"}, {"pattern", {{"String", "▁"}}}, {"content", " "}},
                               {{"type", "ByteFallback"}},
                               {{"type", "Fuse"}}});
  if (prefix) decoders.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  json["normalizer"] = {{"type", "Sequence"}, {"normalizers", std::move(normalizers)}};
  json["pre_tokenizer"] = nullptr;
  json["decoder"] = {{"type", "Sequence"}, {"decoders", std::move(decoders)}};
  json["model"] = bpe(source, merges_by_score(source));
  json["model"]["byte_fallback"] = true;
  json["model"]["fuse_unk"] = true;
  if (source.unknown && *source.unknown >= 0 && *source.unknown < std::ssize(source.tokens)) {
    json["model"]["unk_token"] = source.tokens[static_cast<std::size_t>(*source.unknown)];
    json["model"]["vocab"][source.tokens[static_cast<std::size_t>(*source.unknown)]] = *source.unknown;
  }
  return Ok{};
}

/// What stands around raw text.
Json post_processor(const text::Tokenizer& tokenizer) {
  Json single = Json::array();
  Json special = Json::object();
  const auto put = [&](std::int32_t id) {
    const std::string token(tokenizer.token_text(id));
    single.push_back({{"SpecialToken", {{"id", token}, {"type_id", 0}}}});
    special[token] = {{"id", token}, {"ids", Json::array({id})}, {"tokens", Json::array({token})}};
  };
  for (const std::int32_t id : tokenizer.prefix_ids()) put(id);
  single.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
  for (const std::int32_t id : tokenizer.suffix_ids()) put(id);
  if (special.empty()) return nullptr;
  Json pair = single;
  for (Json piece : single) {
    auto& inner = piece.begin().value();
    inner["type_id"] = 1;
    if (piece.contains("Sequence")) inner["id"] = "B";
    pair.push_back(std::move(piece));
  }
  return {{"type", "TemplateProcessing"},
          {"single", std::move(single)},
          {"pair", std::move(pair)},
          {"special_tokens", std::move(special)}};
}

Result<Json> tokenizer_json(const TokenizerSource& source, const text::Tokenizer& tokenizer) {
  for (const std::string& token : source.tokens) {
    if (!is_utf8(token)) return unsupported("a token is no UTF-8");
  }
  Json json = {{"version", "1.0"}, {"truncation", nullptr}, {"padding", nullptr}};
  json["added_tokens"] = added_tokens(source);
  if (source.kind == "gpt2") {
    PAGODA_TRY(add_byte_level(source, json));
  } else if (source.kind == "llama") {
    PAGODA_TRY(add_marked_spaces(source, json));
  } else {
    return unsupported("it is of the kind " + source.kind);
  }
  json["post_processor"] = post_processor(tokenizer);
  return json;
}

Result<Json> tokenizer_config(const TokenizerSource& source, const text::Tokenizer& tokenizer,
                              const DescribedFile& described) {
  Json json = {{"tokenizer_class", "PreTrainedTokenizerFast"},
               {"clean_up_tokenization_spaces", false},
               {"model_max_length", described.description.spec.context},
               {"add_bos_token", tokenizer.wants_bos()},
               {"add_eos_token", tokenizer.wants_eos()}};
  const auto name = [&](const char* key, const std::optional<std::int64_t>& id) {
    if (id && *id >= 0 && *id < std::ssize(source.tokens)) json[key] = source.tokens[static_cast<std::size_t>(*id)];
  };
  name("bos_token", source.bos);
  name("eos_token", source.eos);
  name("pad_token", source.padding);
  name("unk_token", source.unknown);
  if (const auto chat = PAGODA_TRY(chat_template_of(described.file.config()))) json["chat_template"] = *chat;
  return json;
}

Result<Json> generation_config(const text::Tokenizer& tokenizer, const DescribedFile& described) {
  Json json = Json::object();
  if (tokenizer.bos()) json["bos_token_id"] = *tokenizer.bos();
  const auto ends = tokenizer.end_of_generation_ids();
  if (!ends.empty()) json["eos_token_id"] = std::vector<std::int32_t>(ends.begin(), ends.end());
  const SamplingParams sampling = PAGODA_TRY(sampling_defaults(described.file.config()));
  if (sampling.repetition_penalty) json["repetition_penalty"] = *sampling.repetition_penalty;
  if (!sampling.temperature || *sampling.temperature == 0) return json;
  json["do_sample"] = true;
  json["temperature"] = *sampling.temperature;
  if (sampling.top_k) json["top_k"] = *sampling.top_k;
  if (sampling.top_p) json["top_p"] = *sampling.top_p;
  if (sampling.min_p) json["min_p"] = *sampling.min_p;
  return json;
}

}  // namespace

Status write_folder_tokenizer(const DescribedFile& described, const std::string& folder) {
  const io::RawConfig& config = described.file.config();
  if (!has_tokenizer(config)) return Ok{};
  const TokenizerSource source = PAGODA_TRY(tokenizer_source(config));
  const auto wanted = PAGODA_TRY(text::Tokenizer::create(source));
  const std::string tokenizer = PAGODA_TRY(tokenizer_json(source, *wanted)).dump();
  const std::string beside = PAGODA_TRY(tokenizer_config(source, *wanted, described)).dump(2) + "\n";
  const auto ends = wanted->end_of_generation_ids();
  const std::vector<std::int64_t> end_ids(ends.begin(), ends.end());
  auto read = PAGODA_TRY(text::read_tokenizer_json({.tokenizer = tokenizer, .config = beside, .end_ids = end_ids}));
  const auto found = PAGODA_TRY(text::Tokenizer::create(std::move(read)));
  PAGODA_TRY(text::same_tokens(*wanted, *found));
  PAGODA_TRY(write_text(folder + "/tokenizer.json", tokenizer));
  PAGODA_TRY(write_text(folder + "/tokenizer_config.json", beside));
  return write_text(folder + "/generation_config.json",
                    PAGODA_TRY(generation_config(*wanted, described)).dump(2) + "\n");
}

}  // namespace pagoda::api
