// Qwen2 and 2.5: queries, keys and values have biases.
#include "model/family.h"
#include "model/transformer_config.h"

namespace pagoda::model {
namespace {

constexpr std::string_view kGguf[] = {"qwen2"};
constexpr std::string_view kHf[] = {"Qwen2ForCausalLM"};

}  // namespace

extern const Family kQwen2;
const Family kQwen2{.name = "qwen2",
                    .gguf_architectures = kGguf,
                    .hf_architectures = kHf,
                    .tensor_aliases = {},
                    .make_spec = read_transformer};

}  // namespace pagoda::model
