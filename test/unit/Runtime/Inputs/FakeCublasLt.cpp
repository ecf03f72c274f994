// A libcublasLt of host memory for tests without a GPU: descriptions are kept as they are given, and cublasLtMatmul multiplies
// column-major matrices by them, so that a wrong layout, transpose, stride or epilogue is a wrong number. Attributes and their
// sizes are those of cublasLt.h; anything else is an error. FAKE_CUBLASLT_FAILS=cublasLtMatmul makes that function fail.
#include "FakeCublasLt.h"

#include <cstdlib>
#include <cstring>
#include <utility>

using namespace minic::test;

namespace {

constexpr int success = 0, invalidValue = 7, notSupported = 15;
FakeCublasLt state;

struct Algorithm {
  uint64_t data[8];
};
struct HeuristicResult {
  Algorithm algorithm;
  size_t workspaceBytes;
  int status;
  float waves;
  int reserved[4];
};
constexpr uint64_t stamp = 0x6d696e6963; // Of algorithms that come from here.

bool fails(const char *function) {
  const char *named = std::getenv("FAKE_CUBLASLT_FAILS");
  if (named && std::strcmp(named, function) == 0)
    state.failing = named, state.status = notSupported;
  return state.failing == function;
}

template <typename T> int setField(T &field, const void *value, size_t bytes) {
  if (!value || bytes != sizeof(T))
    return invalidValue;
  std::memcpy(&field, value, bytes);
  return success;
}

double read(const void *memory, int64_t i, int type) {
  if (type == 0)
    return static_cast<const float *>(memory)[i];
  if (type == 1)
    return static_cast<const double *>(memory)[i];
  uint32_t bits = uint32_t(static_cast<const uint16_t *>(memory)[i]) << 16; // bf16; the tests have no f16.
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

/// Results of the tests are small integers, which every type holds.
void write(void *memory, int64_t i, int type, double value) {
  float narrow = float(value);
  uint32_t bits;
  std::memcpy(&bits, &narrow, sizeof bits);
  if (type == 0)
    static_cast<float *>(memory)[i] = narrow;
  else if (type == 1)
    static_cast<double *>(memory)[i] = value;
  else
    static_cast<uint16_t *>(memory)[i] = uint16_t(bits >> 16);
}

double readFactor(const void *factor, const FakeDesc &desc) { return read(factor, 0, desc.scaleType); }

} // namespace

extern "C" {

FakeCublasLt *fakeCublasLt() { return &state; }

size_t cublasLtGetVersion() { return 130100; }
const char *cublasLtGetStatusName(int status) {
  return status == notSupported ? "CUBLAS_STATUS_NOT_SUPPORTED" : status == 13 ? "CUBLAS_STATUS_EXECUTION_FAILED" : nullptr;
}

int cublasLtCreate(void **handle) {
  if (fails("cublasLtCreate"))
    return state.status;
  ++state.handles;
  *handle = &state;
  return success;
}
int cublasLtDestroy(void *handle) {
  --state.handles;
  return handle == &state ? success : invalidValue;
}

int cublasLtMatmulDescCreate(FakeDesc **desc, int computeType, int scaleType) {
  if (fails("cublasLtMatmulDescCreate"))
    return state.status;
  ++state.objects;
  *desc = new FakeDesc{computeType, scaleType};
  return success;
}
int cublasLtMatmulDescDestroy(FakeDesc *desc) {
  --state.objects;
  delete desc;
  return success;
}
int cublasLtMatmulDescSetAttribute(FakeDesc *desc, int attribute, const void *value, size_t bytes) {
  if (fails("cublasLtMatmulDescSetAttribute"))
    return state.status;
  switch (attribute) {
  case 3: // CUBLASLT_MATMUL_DESC_TRANSA
    return setField(desc->transposeA, value, bytes);
  case 4: // CUBLASLT_MATMUL_DESC_TRANSB
    return setField(desc->transposeB, value, bytes);
  case 7: // CUBLASLT_MATMUL_DESC_EPILOGUE
    return setField(desc->epilogue, value, bytes);
  case 8: // CUBLASLT_MATMUL_DESC_BIAS_POINTER
    return setField(desc->bias, value, bytes);
  default:
    return invalidValue;
  }
}

int cublasLtMatrixLayoutCreate(FakeLayout **layout, int type, uint64_t rows, uint64_t columns, int64_t pitch) {
  if (fails("cublasLtMatrixLayoutCreate"))
    return state.status;
  if (pitch < int64_t(rows))
    return invalidValue;
  ++state.objects;
  *layout = new FakeLayout{type, rows, columns, pitch};
  return success;
}
int cublasLtMatrixLayoutDestroy(FakeLayout *layout) {
  --state.objects;
  delete layout;
  return success;
}
int cublasLtMatrixLayoutSetAttribute(FakeLayout *layout, int attribute, const void *value, size_t bytes) {
  switch (attribute) {
  case 5: // CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT
    return setField(layout->batches, value, bytes);
  case 6: // CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET
    return setField(layout->batchStride, value, bytes);
  default:
    return invalidValue;
  }
}

int cublasLtMatmulPreferenceCreate(std::map<int, uint64_t> **preference) {
  ++state.objects;
  *preference = new std::map<int, uint64_t>;
  return success;
}
int cublasLtMatmulPreferenceDestroy(std::map<int, uint64_t> *preference) {
  --state.objects;
  delete preference;
  return success;
}
int cublasLtMatmulPreferenceSetAttribute(std::map<int, uint64_t> *preference, int attribute, const void *value, size_t bytes) {
  bool isBytes = attribute == 1; // CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES is 64 bits wide, the others are 32.
  if (bytes != (isBytes ? 8u : 4u) || (!isBytes && attribute != 3 && (attribute < 5 || attribute > 8)))
    return invalidValue;
  uint64_t number = 0;
  std::memcpy(&number, value, bytes);
  (*preference)[attribute] = number;
  return success;
}

int cublasLtMatmulAlgoGetHeuristic(void *handle, const FakeDesc *desc, const FakeLayout *a, const FakeLayout *b,
                                   const FakeLayout *c, const FakeLayout *d, const std::map<int, uint64_t> *preference, int wanted,
                                   HeuristicResult *results, int *found) {
  ++state.asked;
  state.wishes = *preference;
  state.biasWhenAsked = desc->bias;
  if (fails("cublasLtMatmulAlgoGetHeuristic"))
    return state.status;
  *found = 0;
  if (handle != &state || wanted < 1 || a->batches != d->batches || b->batches != d->batches || c != d || fails("nothing found"))
    return success;
  results[0] = {};
  results[0].algorithm.data[0] = stamp;
  results[0].workspaceBytes = state.workspaceBytes;
  *found = 1;
  return success;
}

int cublasLtMatmul(void *handle, const FakeDesc *desc, const void *alpha, const void *a, const FakeLayout *aLayout, const void *b,
                   const FakeLayout *bLayout, const void *beta, const void *c, const FakeLayout *cLayout, void *d,
                   const FakeLayout *dLayout, const Algorithm *algorithm, void *workspace, size_t workspaceBytes, void *stream) {
  ++state.multiplied;
  state.lastWorkspace = workspace;
  state.lastWorkspaceBytes = workspaceBytes;
  state.lastStream = stream;
  if (fails("cublasLtMatmul"))
    return state.status;
  auto element = [](const void *memory, const FakeLayout &layout, int64_t batch, int64_t row, int64_t column, bool transposed) {
    if (transposed)
      std::swap(row, column);
    return read(memory, batch * layout.batchStride + row + column * layout.pitch, layout.type);
  };
  auto depth = int64_t(desc->transposeA ? aLayout->rows : aLayout->columns);
  if (handle != &state || algorithm->data[0] != stamp || c != d || cLayout != dLayout || readFactor(beta, *desc) != 0 ||
      depth != int64_t(desc->transposeB ? bLayout->columns : bLayout->rows) || (desc->epilogue != 1 && desc->epilogue != 4))
    return invalidValue;
  for (int64_t batch = 0; batch < dLayout->batches; ++batch)
    for (int64_t row = 0; row < int64_t(dLayout->rows); ++row)
      for (int64_t column = 0; column < int64_t(dLayout->columns); ++column) {
        double sum = 0;
        for (int64_t k = 0; k < depth; ++k)
          sum += element(a, *aLayout, batch, row, k, desc->transposeA) * element(b, *bLayout, batch, k, column, desc->transposeB);
        sum *= readFactor(alpha, *desc);
        if (desc->epilogue == 4) // CUBLASLT_EPILOGUE_BIAS: along the rows of D.
          sum += read(desc->bias, row, dLayout->type);
        write(d, batch * dLayout->batchStride + row + column * dLayout->pitch, dLayout->type, sum);
      }
  return success;
}

} // extern "C"
