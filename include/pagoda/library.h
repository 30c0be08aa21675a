// The root of everything: what the machine offers and what the process shares between models.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pagoda/memory.h"
#include "pagoda/types.h"

namespace pagoda {

enum class LogLevel : std::uint8_t { kDebug, kInfo, kWarning, kError };

/// Receives what the library has to say; may be called from any thread, several at once. Prompts and answers are never
/// part of a message.
using LogSink = std::function<void(LogLevel level, std::string_view message)>;

/// All options have a default that suits one program on one machine.
struct LibraryOptions {
  /// Worker threads of each model on the CPU, the engine's own thread among them; 0: as many as this process may use.
  int threads = 0;
  /// "portable", "avx2", "avx512" or "avx512_bf16" forces a set of CPU instructions; empty: the best there is.
  std::string cpu_isa{};
  /// Where compiled device kernels are kept, in a folder of the user's own; empty: they are not kept.
  std::string cache_folder{};
  /// Device kernels that travel with the program, as `make kernels` packs them; lent, and outlives the library. Empty:
  /// none. What is damaged or of other sources is not used.
  std::span<const std::byte> kernel_pack{};
  /// Empty: silence.
  LogSink log{};
};

/// A device that models can run on.
struct DeviceInfo {
  std::string id{};            ///< as ModelOptions::device takes it: "cpu", "reference", "cuda:0"
  std::string name{};          ///< of the processor or GPU, as it calls itself
  std::string instructions{};  ///< the CPU instruction set in use; empty for others
  std::int64_t memory_bytes = 0;
};

/// A handle; copies name the same library. It lives until the last copy and the last model of it are gone. Any thread
/// may call any function.
class Library {
 public:
  /// Errors: kInvalidArgument for a thread count or instruction set that does not exist, kDeviceUnfit for
  /// instructions that this machine lacks.
  static Result<Library> create(LibraryOptions options = {});

  const LibraryOptions& options() const;

  std::vector<DeviceInfo> devices() const;  ///< the CPU, the reference, each GPU of the driver, be it fit or not

  /// The models that are open now, and the memory that each took.
  std::vector<ModelMemory> models() const;

  /// The version of this library, as "0.1.0".
  static std::string_view version();

  struct State;
  /// For the library's own use.
  const std::shared_ptr<State>& state() const { return state_; }

 private:
  explicit Library(std::shared_ptr<State> state) : state_(std::move(state)) {}

  std::shared_ptr<State> state_;
};

}  // namespace pagoda
