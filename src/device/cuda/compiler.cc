#include "device/cuda/compiler.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <thread>

#include "base/file.h"
#include "base/sha256.h"

namespace pagoda::device::cuda {
namespace {

// An entry is this mark, the SHA-256 of the cubin, and the cubin.
constexpr std::string_view kEntryMark = "pagoda-cubin-1\n";

void add_field(std::string& text, std::string_view field) { text += pagoda::format("{}:{}\n", field.size(), field); }

std::vector<std::string_view> included_names(std::string_view text) {
  std::vector<std::string_view> names;
  constexpr std::string_view kDirective = "#include \"";
  for (std::size_t at = text.find(kDirective); at != std::string_view::npos; at = text.find(kDirective, at)) {
    at += kDirective.size();
    const std::size_t end = text.find('"', at);
    if (end == std::string_view::npos) break;
    names.push_back(text.substr(at, end - at));
  }
  return names;
}

/// Makes the folder and those above it; why it may not be used, or nothing.
std::string prepare_folder(const std::string& folder) {
  for (std::size_t slash = folder.find('/', 1); slash != std::string::npos; slash = folder.find('/', slash + 1)) {
    ::mkdir(folder.substr(0, slash).c_str(), 0700);
  }
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    return pagoda::format("{} cannot be made: {}", folder, std::strerror(errno));
  }
  struct stat status {};
  if (::lstat(folder.c_str(), &status) != 0 || !S_ISDIR(status.st_mode))
    return pagoda::format("{} is no folder", folder);
  if (status.st_uid != ::geteuid()) return pagoda::format("{} belongs to another user", folder);
  if ((status.st_mode & 077) != 0) return pagoda::format("{} is open to other users; its mode should be 0700", folder);
  return {};
}

}  // namespace

Compiler::Compiler(CompilerOptions options) : options_(std::move(options)) {
  if (options_.cache_folder.empty()) return;
  cache_refusal_ = prepare_folder(options_.cache_folder);
  if (!cache_refusal_.empty()) options_.cache_folder.clear();
}

const EmbeddedSource* Compiler::find(std::string_view name) const {
  const auto at = std::find_if(options_.sources.begin(), options_.sources.end(),
                               [&](const EmbeddedSource& source) { return source.name == name; });
  return at != options_.sources.end() ? &*at : nullptr;
}

Status Compiler::collect(std::string_view name, std::vector<const EmbeddedSource*>& reached) const {
  const EmbeddedSource* source = find(name);
  if (source == nullptr) return fail(ErrorCode::kInternal, "{} is not among the embedded sources", name);
  if (std::find(reached.begin(), reached.end(), source) != reached.end()) return Ok{};
  reached.push_back(source);
  for (const std::string_view included : included_names(source->text)) PAGODA_TRY(collect(included, reached));
  return Ok{};
}

Status Compiler::add_texts(const CompileUnit& unit, std::string& text) const {
  std::vector<const EmbeddedSource*> reached;
  PAGODA_TRY(collect(unit.source, reached));
  for (const EmbeddedSource* source : reached) {
    add_field(text, source->name);
    add_field(text, source->text);
  }
  return Ok{};
}

Result<std::string> Compiler::key(const CompileUnit& unit) const {
  std::string text;
  add_field(text, options_.nvrtc != nullptr ? options_.nvrtc->version() : "");
  for (const std::string& option : Nvrtc::options(unit, options_.line_info)) add_field(text, option);
  PAGODA_TRY(add_texts(unit, text));
  return to_hex(sha256(text));
}

Result<Sha256> Compiler::pack_key(const CompileUnit& unit) const {
  std::string text;
  for (const std::string& option : Nvrtc::options(unit, false)) add_field(text, option);
  PAGODA_TRY(add_texts(unit, text));
  return sha256(text);
}

std::optional<Sha256> Compiler::find_packed(const CompileUnit& unit) const {
  if (options_.pack == nullptr) return std::nullopt;
  CompileUnit tried = unit;
  for (;;) {
    const Result<Sha256> key = pack_key(tried);
    if (key.ok() && options_.pack->contains(*key)) return *key;
    // Code for 8.0 runs on 8.6; "sm_90a" runs on 9.0 alone.
    char& minor = tried.architecture.back();
    if (minor < '1' || minor > '9') return std::nullopt;
    --minor;
  }
}

bool Compiler::can_make(std::span<const CompileUnit> units) const {
  if (options_.nvrtc != nullptr || options_.compile) return true;
  return std::ranges::all_of(units, [&](const CompileUnit& unit) {
    if (is_packed(unit)) return true;
    const Result<std::string> name = key(unit);
    return name.ok() && !options_.cache_folder.empty() && std::filesystem::exists(entry_path(*name));
  });
}

std::vector<std::byte> Compiler::read_packed(const CompileUnit& unit) {
  const std::optional<Sha256> key = find_packed(unit);
  if (!key) return {};
  Result<std::vector<std::byte>> cubin = options_.pack->cubin(*key);
  ++(cubin.ok() ? packed_ : damaged_);
  return cubin.ok() ? *std::move(cubin) : std::vector<std::byte>{};
}

std::string Compiler::entry_path(const std::string& key) const { return options_.cache_folder + "/" + key + ".cubin"; }

std::vector<std::byte> Compiler::kept(const std::string& name) {
  if (options_.cache_folder.empty()) return {};
  const auto file = File::open(entry_path(name));
  if (!file.ok()) return {};
  std::vector<std::byte> bytes(file->size());
  const std::size_t head = kEntryMark.size() + sizeof(Sha256);
  if (bytes.size() > head && file->read(0, bytes).ok() &&
      std::memcmp(bytes.data(), kEntryMark.data(), kEntryMark.size()) == 0) {
    const std::vector<std::byte> contents(bytes.begin() + static_cast<std::ptrdiff_t>(head), bytes.end());
    const Sha256 digest = sha256(contents);
    if (std::memcmp(bytes.data() + kEntryMark.size(), digest.data(), digest.size()) == 0) {
      return contents;
    }
  }
  ++damaged_;
  ::unlink(entry_path(name).c_str());
  return {};
}

void Compiler::keep(const std::string& name, std::span<const std::byte> contents) {
  // A folder that cannot be written to costs a compile the next time, nothing else.
  if (options_.cache_folder.empty()) return;
  std::string temporary = entry_path(name) + ".XXXXXX";
  const int descriptor = ::mkstemp(temporary.data());
  if (descriptor < 0) {
    ++unwritten_;
    return;
  }
  std::string bytes(kEntryMark);
  const Sha256 digest = sha256(contents);
  bytes.append(reinterpret_cast<const char*>(digest.data()), digest.size());
  bytes.append(reinterpret_cast<const char*>(contents.data()), contents.size());
  bool written = true;
  for (std::size_t at = 0; written && at < bytes.size();) {
    const ssize_t put = ::write(descriptor, bytes.data() + at, bytes.size() - at);
    if (put < 0 && errno == EINTR) continue;
    written = put > 0;
    if (written) at += static_cast<std::size_t>(put);
  }
  written = ::close(descriptor) == 0 && written;
  if (written && ::rename(temporary.c_str(), entry_path(name).c_str()) == 0) return;
  ++unwritten_;
  ::unlink(temporary.c_str());
}

Result<std::vector<std::byte>> Compiler::cubin(const CompileUnit& unit) {
  if (auto packed = read_packed(unit); !packed.empty()) return packed;
  const std::string name = PAGODA_TRY(key(unit));
  if (auto entry = kept(name); !entry.empty()) {
    ++kept_;
    return entry;
  }
  if (options_.nvrtc == nullptr && !options_.compile) {
    return fail(ErrorCode::kDeviceMissing,
                "{} for {} is neither packed with the program nor kept from an earlier run, and there is no NVRTC "
                "(libnvrtc.so.12 or libnvrtc.so.13) to compile it with",
                unit.source, unit.architecture);
  }
  std::vector<const EmbeddedSource*> reached;
  PAGODA_TRY(collect(unit.source, reached));
  std::vector<EmbeddedSource> headers;
  for (const EmbeddedSource* source : reached) {
    if (source->name != unit.source) headers.push_back(*source);
  }
  auto cubin = options_.compile ? options_.compile(unit)
                                : options_.nvrtc->compile(unit, *reached.front(), headers, options_.line_info);
  ++(cubin.ok() ? compiled_ : failed_);
  if (cubin.ok()) keep(name, *cubin);
  return cubin;
}

Status Compiler::compile_all(std::span<const CompileUnit> units) {
  std::vector<CompileUnit> once(units.begin(), units.end());
  std::sort(once.begin(), once.end());
  once.erase(std::unique(once.begin(), once.end()), once.end());
  std::vector<Status> results(once.size(), Ok{});
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t index = next++; index < once.size(); index = next++) {
      auto made = cubin(once[index]);
      if (!made.ok()) results[index] = std::move(made).error();
    }
  };
  std::vector<std::thread> threads;
  for (int i = 1; i < std::min(options_.num_threads, static_cast<int>(once.size())); ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  for (Status& result : results) {
    if (!result.ok()) return std::move(result);
  }
  return Ok{};
}

CompilerCounters Compiler::counters() const {
  return {.packed = packed_,
          .kept = kept_,
          .compiled = compiled_,
          .damaged = damaged_,
          .failed = failed_,
          .unwritten = unwritten_};
}

Result<std::shared_ptr<const Module>> ModuleLoader::load(const CompileUnit& unit) {
  {
    std::lock_guard lock(mutex_);
    if (const auto at = modules_.find(unit); at != modules_.end()) return at->second;
  }
  const auto cubin = PAGODA_TRY(compiler_->cubin(unit));
  auto module = PAGODA_TRY(Module::load(context_, cubin));
  std::lock_guard lock(mutex_);
  return modules_.emplace(unit, std::move(module)).first->second;
}

}  // namespace pagoda::device::cuda
