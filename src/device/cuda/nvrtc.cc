#include "device/cuda/nvrtc.h"

namespace pagoda::device::cuda {

using ProgramHandle = struct ProgramRecord*;

struct Nvrtc::Api {
  int (*version)(int* major, int* minor);
  const char* (*error_string)(int result);
  int (*create_program)(ProgramHandle* program, const char* source, const char* name, int num_headers,
                        const char* const* headers, const char* const* names);
  int (*destroy_program)(ProgramHandle* program);
  int (*compile_program)(ProgramHandle program, int num_options, const char* const* options);
  int (*cubin_size)(ProgramHandle program, std::size_t* bytes);
  int (*cubin)(ProgramHandle program, char* cubin);
  int (*log_size)(ProgramHandle program, std::size_t* bytes);
  int (*log)(ProgramHandle program, char* text);
};

namespace {

template <class Function>
bool look_up(const SharedLibrary& library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(library.symbol(name));
  return function != nullptr;
}

}  // namespace

Nvrtc::Nvrtc(SharedLibrary library) : library_(std::move(library)) {}

Result<std::shared_ptr<const Nvrtc>> Nvrtc::load() {
  return load({"libnvrtc.so.13", "libnvrtc.so.12", "/usr/local/cuda/lib64/libnvrtc.so", "libnvrtc.so"});
}

Result<std::shared_ptr<const Nvrtc>> Nvrtc::load(const std::vector<std::string>& names) {
  std::shared_ptr<Nvrtc> nvrtc(new Nvrtc(PAGODA_TRY(SharedLibrary::open(names))));
  auto api = std::make_shared<Api>();
  const SharedLibrary& library = nvrtc->library_;
  const bool complete =
      look_up(library, "nvrtcVersion", api->version) && look_up(library, "nvrtcGetErrorString", api->error_string) &&
      look_up(library, "nvrtcCreateProgram", api->create_program) &&
      look_up(library, "nvrtcDestroyProgram", api->destroy_program) &&
      look_up(library, "nvrtcCompileProgram", api->compile_program) &&
      look_up(library, "nvrtcGetCUBINSize", api->cubin_size) && look_up(library, "nvrtcGetCUBIN", api->cubin) &&
      look_up(library, "nvrtcGetProgramLogSize", api->log_size) && look_up(library, "nvrtcGetProgramLog", api->log);
  if (!complete || api->version(&nvrtc->major_, &nvrtc->minor_) != 0) {
    return fail(ErrorCode::kDeviceUnfit, "{} is no NVRTC that Pagoda knows; versions 12 and 13 are", library.name());
  }
  nvrtc->api_ = std::move(api);
  return std::shared_ptr<const Nvrtc>(std::move(nvrtc));
}

std::vector<std::string> Nvrtc::options(const CompileUnit& unit, bool line_info) {
  // Contraction is left to the sources, which name their fused multiply-adds.
  std::vector<std::string> options = {"--gpu-architecture=" + unit.architecture, "--std=c++20", "--fmad=false"};
  // Costs nothing at run time, and three times the bytes of the code itself.
  if (line_info) options.push_back("-lineinfo");
  for (const std::string& define : unit.defines) options.push_back("-D" + define);
  return options;
}

Result<std::vector<std::byte>> Nvrtc::compile(const CompileUnit& unit, const EmbeddedSource& source,
                                              std::span<const EmbeddedSource> headers, bool line_info) const {
  const std::string text(source.text);
  const std::string name(source.name);
  std::vector<std::string> storage;
  for (const EmbeddedSource& header : headers) {
    storage.emplace_back(header.text);
    storage.emplace_back(header.name);
  }
  std::vector<const char*> texts;
  std::vector<const char*> names;
  for (std::size_t i = 0; i < storage.size(); i += 2) {
    texts.push_back(storage[i].c_str());
    names.push_back(storage[i + 1].c_str());
  }
  ProgramHandle program = nullptr;
  int result = api_->create_program(&program, text.c_str(), name.c_str(), static_cast<int>(texts.size()), texts.data(),
                                    names.data());
  if (result != 0) return fail(ErrorCode::kInternal, "{}: {}", unit.source, api_->error_string(result));

  const std::vector<std::string> all_options = options(unit, line_info);
  std::vector<const char*> option_texts;
  for (const std::string& option : all_options) option_texts.push_back(option.c_str());
  result = api_->compile_program(program, static_cast<int>(option_texts.size()), option_texts.data());
  std::vector<std::byte> cubin;
  std::string log;
  std::size_t bytes = 0;
  if (result == 0 && api_->cubin_size(program, &bytes) == 0) {
    cubin.resize(bytes);
    result = api_->cubin(program, reinterpret_cast<char*>(cubin.data()));
  }
  if (result != 0 && api_->log_size(program, &bytes) == 0) {
    log.resize(bytes);
    api_->log(program, log.data());
  }
  api_->destroy_program(&program);
  if (result != 0) return fail(ErrorCode::kInternal, "{} for {}: {}", unit.source, unit.architecture, log);
  return cubin;
}

}  // namespace pagoda::device::cuda
