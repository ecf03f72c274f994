#include "minic/IR/SharedLayout.h"

#include "minic/IR/Schedule.h"

#include <algorithm>
#include <array>

namespace minic {

static constexpr int64_t chunkBytes = 16;

int64_t slabColumns(Type smem) { return smem.swizzle() / dtypeBytes(smem.dtype()); }

int64_t columnsOfStart(Type map) { return std::max<int64_t>(chunkBytes / dtypeBytes(map.dtype()), 1); }

int64_t slabsOfBox(Type map) { return map.swizzle() ? map.box().back() / slabColumns(map) : 1; }

int64_t slabBytes(Type smem) {
  int64_t rows = smem.get().slab ? smem.get().slab : smem.extents()[0];
  return rows * smem.swizzle();
}

int64_t stridedElements(Type smem) {
  std::vector<int64_t> extents = smem.extents(), strides = smem.smemStrides();
  int64_t last = 0;
  for (size_t axis = 0; axis < extents.size(); ++axis) {
    if (extents[axis] == 0)
      return 0;
    last += (extents[axis] - 1) * strides[axis];
  }
  return last + 1;
}

int64_t stageBytes(Type smem) {
  if (!smem.swizzle())
    return stridedElements(smem) * dtypeBytes(smem.dtype());
  return slabBytes(smem) * (smem.extents()[1] / slabColumns(smem));
}

int64_t sharedBytes(Type smem) { return stageBytes(smem) * smem.stages(); }

int64_t elementOffset(Type smem, std::span<const int64_t> index) {
  int64_t bytes = dtypeBytes(smem.dtype()), swizzle = smem.swizzle();
  if (!swizzle) {
    std::vector<int64_t> strides = smem.smemStrides();
    int64_t element = 0;
    for (size_t axis = 0; axis < strides.size(); ++axis)
      element += index[axis] * strides[axis];
    return element * bytes;
  }
  int64_t row = index[0], slab = index[1] / slabColumns(smem), inRow = index[1] % slabColumns(smem) * bytes;
  int64_t line = row * swizzle / 128; // The pattern goes by lines of 128 bytes.
  int64_t chunk = inRow / chunkBytes ^ (line & (swizzle / chunkBytes - 1));
  return slab * slabBytes(smem) + row * swizzle + chunk * chunkBytes + inRow % chunkBytes;
}

Layout wgmmaLayout(int64_t columns) {
  return {.reg = {{1, 2, 1}, {0, 2, 8}, {1, columns / 8, 8}}, .lane = {{1, 4, 2}, {0, 8, 1}}, .warp = {{0, 4, 16}}};
}

Layout MmaTiling::a() const {
  int64_t quad = 4 * piece(); // Of k, that four lanes have side by side.
  return Layout{.reg = {{1, piece(), 1}, {0, 2, 8}, {1, depth() / quad, quad}, {0, rows / (16 * warpsM), 16 * warpsM}},
                .lane = {{1, 4, piece()}, {0, 8, 1}},
                .warp = {{-1, warpsN, 0}, {0, warpsM, 16}}}
      .normalized();
}

Layout MmaTiling::b() const {
  int64_t own = columnsOfWarp(), quad = 4 * piece();
  return Layout{.reg = {{0, piece(), 1}, {0, depth() / quad, quad}, {1, own / 8, 8}, {1, columns / (own * warpsN), own * warpsN}},
                .lane = {{0, 4, piece()}, {1, 8, 1}},
                .warp = {{1, warpsN, own}, {-1, warpsM, 0}}}
      .normalized();
}

Layout MmaTiling::accumulators(int64_t partRows, int64_t partColumns) const {
  int64_t own = columnsOfWarp();
  return Layout{.reg = {{1, 2, 1},
                        {0, 2, 8},
                        {1, own / 8, 8},
                        {1, partColumns / (own * warpsN), own * warpsN},
                        {0, partRows / (16 * warpsM), 16 * warpsM}},
                .lane = {{1, 4, 2}, {0, 8, 1}},
                .warp = {{1, warpsN, own}, {0, warpsM, 16}}}
      .normalized();
}

std::array<int64_t, 2> MmaTiling::part() const {
  int64_t bytes = dtypeBytes(sums()), line = 256 / bytes, sumsOfThread = 64 / bytes;
  int64_t wide = std::max(columnsOfWarp() * warpsN, std::min(line, columns));
  return {std::clamp(sumsOfThread * 32 * warpsM * warpsN / wide, 16 * warpsM, rows), wide};
}

int64_t fragmentUnit(DType dtype, int axis) { return axis == 0 ? 8 : std::max<int64_t>(8, 16 / dtypeBytes(dtype)); }

bool canTurnFragments(DType dtype) { return dtypeBytes(dtype) == 2 || dtype == DType::F64; }

Layout cpAsyncLayout(Type memory, int64_t vec, int64_t warps) {
  const std::array<int, 2> order{1, 0};
  return Schedule::coalesced(memory.extents(), order, vec, warps);
}

} // namespace minic
