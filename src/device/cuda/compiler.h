// From compile units to loaded modules: packed with the program, kept on disk from an earlier run, or compiled now.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "device/compile_unit.h"
#include "device/cuda/kernel.h"
#include "device/cuda/kernel_pack.h"
#include "device/cuda/nvrtc.h"

namespace pagoda::device::cuda {

struct CompilerOptions {
  /// Where cubins are kept: made if it is not there, with mode 0700; not used, with a reason in `cache_refusal()`, if
  /// it is another user's or open to others. Empty: nothing is kept.
  std::string cache_folder = {};
  std::span<const EmbeddedSource> sources = {};  ///< of static storage
  std::shared_ptr<const KernelPack> pack = {};   ///< looked into first; null: nothing is packed
  std::shared_ptr<const Nvrtc> nvrtc = {};       ///< null: what is neither packed nor kept is an error
  bool line_info = true;                         ///< compiled code names the lines of its source
  int num_threads = 1;                           ///< compiles at once, in `compile_all`
  /// Makes a unit's cubin in NVRTC's place: for tests on a driver that is none.
  std::function<Result<std::vector<std::byte>>(const CompileUnit& unit)> compile = {};
};

struct CompilerCounters {
  std::int64_t packed = 0;  ///< taken from the pack
  std::int64_t kept = 0;    ///< taken from the folder
  std::int64_t compiled = 0;
  std::int64_t damaged = 0;  ///< entries of the folder that were removed, and of the pack that were not used
  std::int64_t failed = 0;
  std::int64_t unwritten = 0;  ///< compiled, and the folder could not take them
};

/// Makes cubins; needs no GPU. Thread-safe. Several processes may fill one folder at once: an entry is written to a
/// file of its own and renamed.
class Compiler {
 public:
  explicit Compiler(CompilerOptions options);

  /// The cubin of a unit. Errors: kInternal (the source does not compile), kDeviceMissing (neither packed nor kept, and
  /// no NVRTC).
  Result<std::vector<std::byte>> cubin(const CompileUnit& unit);

  /// Makes each unit once, several at a time, and keeps what it made; the first error in the units' order.
  Status compile_all(std::span<const CompileUnit> units);

  /// What names a unit: a hash over its source, every text that reaches it by #include, its options and the compiler.
  /// Error: kInternal if the source or an included text is not embedded.
  Result<std::string> key(const CompileUnit& unit) const;

  /// What names a unit in a pack: the same without the compiler's version and without line_info, which changes no code.
  Result<Sha256> pack_key(const CompileUnit& unit) const;

  /// Whether the pack has a unit: for its architecture, or for one that its GPUs run too (sm_80 on sm_86).
  bool is_packed(const CompileUnit& unit) const { return find_packed(unit).has_value(); }

  /// Whether `cubin` has a way to make each of them: packed, kept, or by NVRTC.
  bool can_make(std::span<const CompileUnit> units) const;

  /// What else is worth keeping of a GPU, by a name of its own, as cubins are kept: empty if it is not there or
  /// damaged.
  std::vector<std::byte> kept(const std::string& name);
  void keep(const std::string& name, std::span<const std::byte> bytes);

  CompilerCounters counters() const;
  const std::string& cache_refusal() const { return cache_refusal_; }

 private:
  const EmbeddedSource* find(std::string_view name) const;
  Status collect(std::string_view name, std::vector<const EmbeddedSource*>& reached) const;
  Status add_texts(const CompileUnit& unit, std::string& text) const;
  std::optional<Sha256> find_packed(const CompileUnit& unit) const;
  std::vector<std::byte> read_packed(const CompileUnit& unit);
  std::string entry_path(const std::string& key) const;

  CompilerOptions options_;
  std::string cache_refusal_;
  std::atomic<std::int64_t> packed_{0}, kept_{0}, compiled_{0}, damaged_{0}, failed_{0}, unwritten_{0};
};

/// Loads modules into one context; each unit once.
class ModuleLoader {
 public:
  ModuleLoader(ContextPtr context, std::shared_ptr<Compiler> compiler)
      : context_(std::move(context)), compiler_(std::move(compiler)) {}

  Result<std::shared_ptr<const Module>> load(const CompileUnit& unit);

  /// A kernel of a unit, by its name in the source.
  template <class P>
  Result<Kernel<P>> kernel(const CompileUnit& unit, const std::string& name) {
    return Kernel<P>::load(PAGODA_TRY(load(unit)), name);
  }

  const ContextPtr& context_ptr() const { return context_; }

 private:
  ContextPtr context_;
  std::shared_ptr<Compiler> compiler_;
  std::mutex mutex_;
  std::map<CompileUnit, std::shared_ptr<const Module>> modules_;
};

}  // namespace pagoda::device::cuda
