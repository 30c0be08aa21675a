// A release's kernels: the file that `make kernels` writes, as bytes of the program (PAGODA_KERNEL_PACK is its path).
#include "apps/kernel_pack.h"

asm(R"(
  .section .rodata
  .balign 16
pagoda_kernel_pack_begin:
  .incbin ")" PAGODA_KERNEL_PACK R"("
pagoda_kernel_pack_end:
  .byte 0
  .previous
)");

extern "C" const std::byte pagoda_kernel_pack_begin[], pagoda_kernel_pack_end[];

namespace pagoda::apps {

std::span<const std::byte> kernel_pack() { return {pagoda_kernel_pack_begin, pagoda_kernel_pack_end}; }

}  // namespace pagoda::apps
