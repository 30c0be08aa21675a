#include "device/cuda/blas.h"

#include "base/check.h"
#include "device/cuda/shared_library.h"

namespace pagoda::device::cuda {

struct Blas::Api {
  explicit Api(SharedLibrary opened) : library(std::move(opened)) {}

  SharedLibrary library;
  std::size_t (*version)();
  const char* (*status_string)(int status);
  int (*create)(void** handle);
  int (*destroy)(void* handle);
  int (*desc_create)(void** desc, std::int32_t compute, std::int32_t scale);
  int (*desc_destroy)(void* desc);
  int (*desc_set)(void* desc, std::int32_t attribute, const void* value, std::size_t bytes);
  int (*layout_create)(void** layout, std::int32_t type, std::uint64_t rows, std::uint64_t columns,
                       std::int64_t stride);
  int (*layout_destroy)(void* layout);
  int (*preference_create)(void** preference);
  int (*preference_destroy)(void* preference);
  int (*preference_set)(void* preference, std::int32_t attribute, const void* value, std::size_t bytes);
  int (*heuristic)(void* handle, void* desc, void* a, void* b, void* c, void* d, void* preference, int requested,
                   BlasHeuristic* results, int* returned);
  int (*config_get)(const BlasAlgorithm* algorithm, std::int32_t attribute, void* value, std::size_t bytes,
                    std::size_t* written);
  int (*matmul)(void* handle, void* desc, const void* alpha, const void* a, void* a_layout, const void* b,
                void* b_layout, const void* beta, const void* c, void* c_layout, void* d, void* d_layout,
                const BlasAlgorithm* algorithm, void* workspace, std::size_t workspace_bytes, StreamHandle stream);
};

namespace {

template <class Function>
bool look_up(const SharedLibrary& library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(library.symbol(name));
  return function != nullptr;
}

}  // namespace

Result<std::shared_ptr<const Blas>> Blas::load(ContextPtr context) {
  SharedLibrary opened = PAGODA_TRY(SharedLibrary::open(
      {"libcublasLt.so.13", "libcublasLt.so.12", "/usr/local/cuda/lib64/libcublasLt.so", "libcublasLt.so"}));
  auto api = std::make_shared<Api>(std::move(opened));
  const SharedLibrary& library = api->library;
  const bool complete = look_up(library, "cublasLtGetVersion", api->version) &&
                        look_up(library, "cublasLtGetStatusString", api->status_string) &&
                        look_up(library, "cublasLtCreate", api->create) &&
                        look_up(library, "cublasLtDestroy", api->destroy) &&
                        look_up(library, "cublasLtMatmulDescCreate", api->desc_create) &&
                        look_up(library, "cublasLtMatmulDescDestroy", api->desc_destroy) &&
                        look_up(library, "cublasLtMatmulDescSetAttribute", api->desc_set) &&
                        look_up(library, "cublasLtMatrixLayoutCreate", api->layout_create) &&
                        look_up(library, "cublasLtMatrixLayoutDestroy", api->layout_destroy) &&
                        look_up(library, "cublasLtMatmulPreferenceCreate", api->preference_create) &&
                        look_up(library, "cublasLtMatmulPreferenceDestroy", api->preference_destroy) &&
                        look_up(library, "cublasLtMatmulPreferenceSetAttribute", api->preference_set) &&
                        look_up(library, "cublasLtMatmulAlgoGetHeuristic", api->heuristic) &&
                        look_up(library, "cublasLtMatmulAlgoConfigGetAttribute", api->config_get) &&
                        look_up(library, "cublasLtMatmul", api->matmul);
  if (!complete) {
    return fail(ErrorCode::kDeviceUnfit, "{} is no cuBLASLt that Pagoda knows; versions 12 and 13 are", library.name());
  }
  context->make_current();
  std::shared_ptr<Blas> blas(new Blas(std::move(context), api));
  if (const int status = api->create(&blas->handle_); status != 0) {
    return fail(ErrorCode::kDeviceUnfit, "{} does not start: {}", library.name(), api->status_string(status));
  }
  return std::shared_ptr<const Blas>(std::move(blas));
}

Blas::~Blas() {
  if (handle_ != nullptr) api_->destroy(handle_);
}

std::string Blas::version() const {
  const std::size_t version = api_->version();  // 130100
  return pagoda::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

struct BlasPlan::Prepared {
  explicit Prepared(std::shared_ptr<const Blas> owner) : blas(std::move(owner)) {}
  Prepared(const Prepared&) = delete;
  Prepared& operator=(const Prepared&) = delete;
  ~Prepared() {
    if (desc != nullptr) api().desc_destroy(desc);
    for (void* layout : {input, weight, output}) {
      if (layout != nullptr) api().layout_destroy(layout);
    }
  }
  const Blas::Api& api() const { return *blas->api_; }

  /// A product's description; the bias' address is part of it, so a launch with one makes its own.
  int describe(void** into, const void* bias) const {
    const std::int32_t transposed = kBlasTransposed;
    int status = api().desc_create(into, kBlasComputeF32, kBlasF32);
    if (status == 0) status = api().desc_set(*into, kBlasDescTransposeA, &transposed, sizeof transposed);
    if (status != 0 || !problem.bias) return status;
    const std::int32_t epilogue = kBlasEpilogueBias;
    const std::int32_t type = problem.float_output ? kBlasF32 : kBlasBf16;
    status = api().desc_set(*into, kBlasDescEpilogue, &epilogue, sizeof epilogue);
    if (status == 0) status = api().desc_set(*into, kBlasDescBiasType, &type, sizeof type);
    if (status == 0) status = api().desc_set(*into, kBlasDescBiasPointer, &bias, sizeof bias);
    return status;
  }

  std::shared_ptr<const Blas> blas;
  BlasProblem problem;
  BlasHeuristic chosen{};
  void* desc = nullptr;
  void* input = nullptr;
  void* weight = nullptr;
  void* output = nullptr;
};

// cuBLASLt's matrices are columns one after the other: our rows of y are its columns of yᵀ = w · xᵀ, w transposed.
Result<BlasPlan> BlasPlan::prepare(std::shared_ptr<const Blas> blas, const BlasProblem& problem,
                                   std::int64_t workspace_bytes) {
  PAGODA_CHECK(problem.m > 0 && problem.n > 0 && problem.k > 0 && !(problem.bias && problem.accumulate));
  auto prepared = std::make_shared<Prepared>(std::move(blas));
  prepared->problem = problem;
  const Blas::Api& api = prepared->api();
  const auto m = static_cast<std::uint64_t>(problem.m);
  const auto n = static_cast<std::uint64_t>(problem.n);
  const auto k = static_cast<std::uint64_t>(problem.k);
  const auto workspace = static_cast<std::size_t>(workspace_bytes);
  const std::int32_t type = problem.float_output ? kBlasF32 : kBlasBf16;
  void* preference = nullptr;
  int returned = 0;
  int status = prepared->describe(&prepared->desc, nullptr);
  if (status == 0) status = api.layout_create(&prepared->weight, kBlasBf16, k, n, problem.weight_stride);
  if (status == 0) status = api.layout_create(&prepared->input, kBlasBf16, k, m, problem.input_stride);
  if (status == 0) status = api.layout_create(&prepared->output, type, n, m, problem.output_stride);
  if (status == 0) status = api.preference_create(&preference);
  if (status == 0) status = api.preference_set(preference, kBlasPreferWorkspaceBytes, &workspace, sizeof workspace);
  if (status == 0) {
    status = api.heuristic(prepared->blas->handle_, prepared->desc, prepared->weight, prepared->input, prepared->output,
                           prepared->output, preference, 1, &prepared->chosen, &returned);
  }
  if (preference != nullptr) api.preference_destroy(preference);
  if (status != 0 || returned == 0 || prepared->chosen.state != 0) {
    return fail(ErrorCode::kDeviceUnfit, "cuBLASLt has no product for m {} n {} k {} with {} bytes of workspace: {}",
                problem.m, problem.n, problem.k, workspace_bytes, api.status_string(status));
  }
  return BlasPlan(std::move(prepared));
}

void BlasPlan::launch(CudaStream& stream, const void* input, const void* weight, void* output, void* workspace,
                      const void* bias) const {
  const Prepared& p = *prepared_;
  PAGODA_CHECK(p.problem.bias == (bias != nullptr));
  const float beta = p.problem.accumulate ? 1 : 0;
  void* desc = p.desc;
  int status = 0;
  if (bias != nullptr) status = p.describe(&desc, bias);
  if (status == 0) {
    status = p.api().matmul(p.blas->handle_, desc, &p.problem.scale, weight, p.weight, input, p.input, &beta, output,
                            p.output, output, p.output, &p.chosen.algorithm, workspace, p.chosen.workspace_bytes,
                            stream.handle());
  }
  if (bias != nullptr && desc != nullptr) p.api().desc_destroy(desc);
  if (status != 0) {
    throw DeviceError(fail(ErrorCode::kDeviceLost, "cuBLASLt's product of m {} n {} k {}: {}", p.problem.m, p.problem.n,
                           p.problem.k, p.api().status_string(status)));
  }
}

const BlasProblem& BlasPlan::problem() const { return prepared_->problem; }

std::int64_t BlasPlan::workspace_bytes() const { return static_cast<std::int64_t>(prepared_->chosen.workspace_bytes); }

std::string BlasPlan::algorithm() const {
  const auto value = [&](std::int32_t attribute, std::size_t bytes) {
    std::uint32_t number = 0;
    std::size_t written = 0;
    prepared_->api().config_get(&prepared_->chosen.algorithm, attribute, &number, bytes, &written);
    return number;
  };
  return pagoda::format("cublaslt {} algorithm {} tile {} stages {} split {} cluster {}", prepared_->blas->version(),
                        value(kBlasConfigId, 4), value(kBlasConfigTile, 4), value(kBlasConfigStages, 4),
                        value(kBlasConfigSplitK, 4), value(kBlasConfigCluster, 2));
}

}  // namespace pagoda::device::cuda
