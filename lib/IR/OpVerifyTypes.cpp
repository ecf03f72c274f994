// The checks of types by themselves: sizes, strides of shared memory, layouts of tiles.
#include "OpVerify.h"

#include "minic/IR/SharedLayout.h"
#include "minic/Support/TensorMap.h"

#include <algorithm>

namespace minic {

namespace {

/// A tile and a piece of shared memory beyond this many elements fit no CTA; the limits also bound the time that hostile text can
/// take.
constexpr int64_t maxTileElements = int64_t(1) << 20;
constexpr int64_t maxRegisterElements = 4096;

/// The product of the constant parts of `shape` and `bytes`, zero sizes left out; nullopt on overflow. With this bound no product
/// of some of the sizes overflows, in whatever order it is taken.
std::optional<int64_t> boundedBytes(const std::vector<DimExpr> &shape, int64_t bytes) {
  for (const DimExpr &size : shape)
    if (size.getCoefficient() != 0 && __builtin_mul_overflow(bytes, size.getCoefficient(), &bytes))
      return std::nullopt;
  return bytes;
}

std::optional<TypeFault> findTileShapeFault(Type type) {
  std::string_view what = type.isSmem() ? "piece of shared memory" : "tile";
  int64_t elements = 1;
  for (const DimExpr &size : type.shape()) {
    if (!size.isConstant() || size.getCoefficient() < 1)
      return TypeFault{ErrorCode::BadDim, "extent " + size.str() + " of " + type.str() +
                                              " is not a positive integer, as every extent of a " + std::string(what) + " must be"};
    if (size.getCoefficient() > maxTileElements || (elements *= size.getCoefficient()) > maxTileElements)
      return TypeFault{ErrorCode::BadDim, type.str() + " has more than " + std::to_string(maxTileElements) + " elements"};
  }
  return std::nullopt;
}

std::optional<TypeFault> findStrideFault(Type type) {
  const std::vector<int64_t> &strides = type.strides();
  if (strides.empty())
    return std::nullopt;
  auto fault = [&](std::string why) { return TypeFault{ErrorCode::BadDim, "the strides of " + type.str() + " " + why}; };
  if (int(strides.size()) != type.rank())
    return fault("are " + std::to_string(strides.size()) + ", not one for each of " + countText(size_t(type.rank()), "axis"));
  std::vector<std::pair<int64_t, int64_t>> axes; // Stride and extent, of axes that move.
  for (int a = 0; a < type.rank(); ++a) {
    int64_t extent = type.shape()[a].getCoefficient();
    if (strides[a] < 0 || strides[a] > maxTileElements)
      return fault("are not all from 0 to " + std::to_string(maxTileElements));
    if (extent > 1)
      axes.emplace_back(strides[a], extent);
  }
  std::sort(axes.begin(), axes.end());
  int64_t end = 1; // Elements that the faster axes span.
  for (auto [stride, extent] : axes) {
    if (stride < end)
      return fault("put two elements in one place");
    end = stride * extent;
    if (end > maxTileElements)
      return fault("span more than " + std::to_string(maxTileElements) + " elements");
  }
  return std::nullopt;
}

std::optional<TypeFault> findSmemFault(Type type) {
  auto fault = [&](std::string why) { return TypeFault{ErrorCode::BadLayout, type.str() + " " + why}; };
  if (type.stages() < 1 || type.stages() > maxStages)
    return fault("must have from 1 to " + std::to_string(maxStages) + " stages");
  if (!type.swizzle())
    return type.get().slab ? std::optional(fault("has `slab`, which only swizzled memory has")) : findStrideFault(type);
  if (!type.strides().empty() || type.rank() != 2)
    return fault("is swizzled, so it must have two axes and no strides");
  int64_t rows = type.shape()[0].getCoefficient(), rowBytes = type.shape()[1].getCoefficient() * dtypeBytes(type.dtype());
  int64_t slab = type.get().slab ? type.get().slab : rows;
  if (rowBytes % type.swizzle())
    return fault("has rows of " + std::to_string(rowBytes) + " bytes, which are not a multiple of its swizzle");
  if (rows % 8 || slab % 8 || slab < rows || slab > maxTileElements)
    return fault("must have a multiple of 8 rows, and slabs a multiple of 8 rows apart that hold them");
  return std::nullopt;
}

/// The product of the modes' extents; nullopt if it is more than `limit` or a mode makes no sense for `rank` axes.
std::optional<int64_t> boundedProduct(const std::vector<Mode> &modes, int rank, int64_t limit) {
  int64_t product = 1;
  for (const Mode &mode : modes) {
    if (mode.axis < -1 || mode.axis >= rank || mode.extent < 1 || mode.extent > limit || mode.stride < 0 ||
        mode.stride > maxTileElements)
      return std::nullopt;
    if ((product *= mode.extent) > limit)
      return std::nullopt;
  }
  return product;
}

/// `threads` is the kernel's, or 0 where the kernel has stated none that is right.
std::optional<TypeFault> findLayoutFault(Type tile, int64_t threads) {
  const Layout &layout = *tile.layout();
  auto fault = [&](std::string why) { return TypeFault{ErrorCode::BadLayout, "the layout of " + tile.str() + " " + why}; };
  if (!boundedProduct(layout.reg, tile.rank(), maxRegisterElements))
    return fault("has a register mode that is no mode of its axes, or more than " + std::to_string(maxRegisterElements) +
                 " elements in one thread");
  auto lanes = boundedProduct(layout.lane, tile.rank(), 32), warps = boundedProduct(layout.warp, tile.rank(), 32 * maxClusterCtas);
  if (lanes != 32)
    return fault("must have lane modes whose extents multiply to 32");
  if (!warps)
    return fault("has a warp mode that is no mode of its axes, or more than " + std::to_string(32 * maxClusterCtas) + " warps");
  if (threads && *warps * 32 != threads)
    return fault("is for " + countText(size_t(*warps), "warp") + ", but " + countText(size_t(threads / 32), "warp") +
                 " run this (threads = " + std::to_string(threads) + ")");
  if (!layoutCovers(layout, tile.extents()))
    return fault("does not hold every element of the tile equally often and nothing outside it");
  return std::nullopt;
}

} // namespace

std::optional<TypeFault> findTypeFault(Type type, Level level, int64_t threads) {
  if (!type)
    return TypeFault{ErrorCode::BadStructure, "a value has no type"};
  if (type.isScalar())
    return std::nullopt;
  if (type.isMbarrier()) {
    if (int64_t count = type.shape()[0].getCoefficient(); count < 1 || count > 1024)
      return TypeFault{ErrorCode::BadDim, type.str() + " has from 1 to 1024 mbarriers"};
    return std::nullopt;
  }
  DType dtype = type.dtype();
  if (dtype == DType::Index)
    return TypeFault{ErrorCode::UnsupportedDType, type.str() + " cannot be: `index` has no memory form; use i64"};
  for (const DimExpr &size : type.shape())
    if (size.getCoefficient() < 0)
      return TypeFault{ErrorCode::BadDim, "size " + size.str() + " of " + type.str() + " is negative"};
  if (!boundedBytes(type.shape(), dtypeBytes(dtype)))
    return TypeFault{ErrorCode::BadDim, type.str() + " has more bytes than 64 bits can count"};
  if (type.isTensor() || type.isBuffer())
    return std::nullopt;
  if (type.isTensorMap()) {
    if (type.roundsToTf32() && dtype != DType::F32)
      return TypeFault{ErrorCode::UnsupportedDType, type.str() + " rounds to tf32, which only f32 is rounded to"};
    // Named sizes are checked when they are known, at launch.
    if (auto why = tensorMapFault(type.dtype(), type.shape(), type.box(), type.swizzle()))
      return TypeFault{ErrorCode::BadLayout, type.str() + " " + *why};
    return std::nullopt;
  }
  if (auto fault = findTileShapeFault(type))
    return fault;
  if (type.isSmem())
    return findSmemFault(type);
  bool machine = level == Level::Machine;
  if (!machine && type.layout())
    return TypeFault{ErrorCode::BadLayout, type.str() + " has a layout, which tiles have at the machine level only, not at " +
                                               std::string(levelName(level))};
  if (machine && !type.layout())
    return TypeFault{ErrorCode::BadLayout, type.str() + " has no layout, which every tile has at the machine level"};
  return machine ? findLayoutFault(type, threads) : std::nullopt;
}

} // namespace minic
