// Operands of wgmma's sums: their names in an instruction and the registers that they are, eight at a time.
#pragma once

#define PAGODA_NAMES_8 "%0, %1, %2, %3, %4, %5, %6, %7"
#define PAGODA_NAMES_16 PAGODA_NAMES_8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define PAGODA_NAMES_24 PAGODA_NAMES_16 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define PAGODA_NAMES_32 PAGODA_NAMES_24 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define PAGODA_NAMES_40 PAGODA_NAMES_32 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define PAGODA_NAMES_48 PAGODA_NAMES_40 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define PAGODA_NAMES_56 PAGODA_NAMES_48 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define PAGODA_NAMES_64 PAGODA_NAMES_56 ", %56, %57, %58, %59, %60, %61, %62, %63"
#define PAGODA_NAMES_72 PAGODA_NAMES_64 ", %64, %65, %66, %67, %68, %69, %70, %71"
#define PAGODA_NAMES_80 PAGODA_NAMES_72 ", %72, %73, %74, %75, %76, %77, %78, %79"
#define PAGODA_NAMES_88 PAGODA_NAMES_80 ", %80, %81, %82, %83, %84, %85, %86, %87"
#define PAGODA_NAMES_96 PAGODA_NAMES_88 ", %88, %89, %90, %91, %92, %93, %94, %95"
#define PAGODA_NAMES_104 PAGODA_NAMES_96 ", %96, %97, %98, %99, %100, %101, %102, %103"
#define PAGODA_NAMES_112 PAGODA_NAMES_104 ", %104, %105, %106, %107, %108, %109, %110, %111"
#define PAGODA_NAMES_120 PAGODA_NAMES_112 ", %112, %113, %114, %115, %116, %117, %118, %119"
#define PAGODA_NAMES_128 PAGODA_NAMES_120 ", %120, %121, %122, %123, %124, %125, %126, %127"

/// Sums d[i] … d[i + 7].
#define PAGODA_SUMS_8(i)                                                                              \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), \
      "+f"(d[i + 7])
#define PAGODA_SUMS_16 PAGODA_SUMS_8(0), PAGODA_SUMS_8(8)
#define PAGODA_SUMS_24 PAGODA_SUMS_16, PAGODA_SUMS_8(16)
#define PAGODA_SUMS_32 PAGODA_SUMS_24, PAGODA_SUMS_8(24)
#define PAGODA_SUMS_40 PAGODA_SUMS_32, PAGODA_SUMS_8(32)
#define PAGODA_SUMS_48 PAGODA_SUMS_40, PAGODA_SUMS_8(40)
#define PAGODA_SUMS_56 PAGODA_SUMS_48, PAGODA_SUMS_8(48)
#define PAGODA_SUMS_64 PAGODA_SUMS_56, PAGODA_SUMS_8(56)
#define PAGODA_SUMS_72 PAGODA_SUMS_64, PAGODA_SUMS_8(64)
#define PAGODA_SUMS_80 PAGODA_SUMS_72, PAGODA_SUMS_8(72)
#define PAGODA_SUMS_88 PAGODA_SUMS_80, PAGODA_SUMS_8(80)
#define PAGODA_SUMS_96 PAGODA_SUMS_88, PAGODA_SUMS_8(88)
#define PAGODA_SUMS_104 PAGODA_SUMS_96, PAGODA_SUMS_8(96)
#define PAGODA_SUMS_112 PAGODA_SUMS_104, PAGODA_SUMS_8(104)
#define PAGODA_SUMS_120 PAGODA_SUMS_112, PAGODA_SUMS_8(112)
#define PAGODA_SUMS_128 PAGODA_SUMS_120, PAGODA_SUMS_8(120)
