#include "device_code/cubin_info.h"

#include <elf.h>

#include <cstring>
#include <string_view>
#include <vector>

namespace pagoda::fixtures {
namespace {

// Attributes in .nv.info, each of a symbol and a value.
constexpr std::uint8_t kFormatSized = 4;
constexpr std::uint8_t kFrameSize = 0x11;
constexpr std::uint8_t kMinStackSize = 0x12;
constexpr std::uint8_t kRegisters = 0x2f;

/// Operation codes of compute capability 8.0 to 9.0: the low twelve bits of an instruction of 16 bytes. Found by
/// compiling kernels with and without the instruction of PTX.
constexpr std::pair<std::uint64_t, const char*> kCodes[] = {
    {0x23c, "mma"},              // HMMA
    {0x9f0, "wgmma"},            // HGMMA, both operands in shared memory
    {0xdf0, "wgmma"},            // HGMMA, the first one in registers
    {0x83b, "ldmatrix"},         // LDSM
    {0xfae, "copy_async"},       // LDGSTS
    {0x3ba, "bulk_copy"},        // UBLKCP
    {0x5b4, "tensor_map_copy"},  // UTMALDG
};
constexpr std::uint64_t kInstructionBytes = 16;

class Cubin {
 public:
  explicit Cubin(std::span<const std::byte> bytes) : bytes_(bytes) {
    Elf64_Ehdr head{};
    if (!read(0, head) || std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0) return;
    for (std::size_t i = 0; i < head.e_shnum; ++i) {
      Elf64_Shdr section{};
      if (!read(head.e_shoff + i * head.e_shentsize, section)) return;
      sections_.push_back(section);
    }
    if (head.e_shstrndx < sections_.size()) names_ = &sections_[head.e_shstrndx];
  }

  std::map<std::string, KernelInfo> kernels() {
    std::map<std::string, KernelInfo> found;
    if (names_ == nullptr) return found;
    for (const Elf64_Shdr& section : sections_) {
      const std::string name = text(*names_, section.sh_name);
      if (section.sh_type == SHT_SYMTAB) symbols_ = &section;
      if (name.starts_with(".text.")) read_instructions(section, found[name.substr(6)]);
    }
    for (const Elf64_Shdr& section : sections_) {
      const std::string name = text(*names_, section.sh_name);
      constexpr std::string_view kShared = ".nv.shared.";
      if (name.starts_with(kShared)) {
        const auto kernel = found.find(name.substr(kShared.size()));
        if (kernel != found.end()) kernel->second.shared_bytes = static_cast<std::int64_t>(section.sh_size);
      }
      if (name == ".nv.info") read_info(section, found);
    }
    return found;
  }

 private:
  template <class T>
  bool read(std::uint64_t at, T& value) const {
    if (at > bytes_.size() || sizeof value > bytes_.size() - at) return false;
    std::memcpy(&value, bytes_.data() + at, sizeof value);
    return true;
  }

  std::string text(const Elf64_Shdr& table, std::uint64_t at) const {
    std::string out;
    for (char c = 0; at < table.sh_size && read(table.sh_offset + at, c) && c != 0; ++at) out += c;
    return out;
  }

  std::string symbol(std::uint32_t index) const {
    Elf64_Sym entry{};
    if (symbols_ == nullptr || !read(symbols_->sh_offset + index * sizeof entry, entry)) return {};
    return text(sections_[symbols_->sh_link], entry.st_name);
  }

  void read_instructions(const Elf64_Shdr& section, KernelInfo& kernel) const {
    for (std::uint64_t at = 0; at + kInstructionBytes <= section.sh_size; at += kInstructionBytes) {
      std::uint64_t word = 0;
      if (!read(section.sh_offset + at, word)) return;
      for (const auto& [code, name] : kCodes) {
        if ((word & 0xfff) == code) kernel.instructions.insert(name);
      }
    }
  }

  void read_info(const Elf64_Shdr& section, std::map<std::string, KernelInfo>& found) const {
    for (std::uint64_t at = section.sh_offset; at + 4 <= section.sh_offset + section.sh_size;) {
      std::uint8_t format = 0, attribute = 0;
      std::uint16_t size = 0;
      std::uint32_t index = 0, value = 0;
      if (!read(at, format) || !read(at + 1, attribute) || !read(at + 2, size)) return;
      const bool pair = format == kFormatSized && size == 8 && read(at + 4, index) && read(at + 8, value);
      at += 4 + (format == kFormatSized ? size : 0u);
      const auto kernel = pair ? found.find(symbol(index)) : found.end();
      if (kernel == found.end()) continue;
      if (attribute == kRegisters) kernel->second.registers = value;
      if (attribute == kFrameSize || attribute == kMinStackSize) {
        kernel->second.local_bytes = std::max<std::int64_t>(kernel->second.local_bytes, value);
      }
    }
  }

  std::span<const std::byte> bytes_;
  std::vector<Elf64_Shdr> sections_;
  const Elf64_Shdr* names_ = nullptr;
  const Elf64_Shdr* symbols_ = nullptr;
};

}  // namespace

std::map<std::string, KernelInfo> kernels_in(std::span<const std::byte> cubin) { return Cubin(cubin).kernels(); }

}  // namespace pagoda::fixtures
