// A kernel made ready to be interpreted: values are slots, attributes are decoded, named sizes are numbers.
#pragma once

#include "Lanes.h"
#include "minic/IR/Schedule.h"
#include "minic/Support/Expected.h"
#include "minic/Support/Strides.h"

#include <map>
#include <optional>
#include <variant>

namespace minic::interp {

/// "More than one thread", where a thread number is expected.
inline constexpr int32_t manyThreads = -2;
inline constexpr int32_t noThread = -1;

/// Which threads hold each element of a tile.
struct ThreadMap {
  std::vector<int32_t> writer; ///< The holder with the lowest (warp, lane): it is the one that stores.
  std::vector<int32_t> reader; ///< The only holder, or manyThreads.
};

struct Body;

struct ConstantInfo {
  LaneArray value;
};
struct ProgramIdInfo {
  std::vector<int64_t> grid;
};
struct ForInfo {
  std::unique_ptr<Body> body;
};
struct IotaInfo {
  int64_t extent;
};
struct InBoundsInfo {
  int64_t bound, extent;
};
struct BroadcastInfo {
  std::vector<int64_t> from, to;
};
/// spread: the operand's element for each of the result's.
struct SpreadInfo {
  std::vector<int32_t> from;
};
struct AccessInfo {
  bool absentOutside = false; ///< Tile level: every axis is checked, and lanes outside are absent.
  static constexpr int ownIndices = -1, oneIndex = -2;
  std::vector<int> dims;      ///< Tile axis of each buffer axis; or where lanes have indices of their own, or all the same.
  std::vector<int64_t> steps; ///< Of each buffer axis; empty: all 1.
  int64_t step(size_t axis) const { return steps.empty() ? 1 : steps[axis]; }
  std::vector<bool> masked; ///< Per tile axis.
  std::optional<Scalar> fill;
  int64_t vec = 1;
  bool splitsEdges = false;           ///< A vector that reaches over an edge is no error.
  int vecAxis = -1;                   ///< Tile axis along which `vec` elements of a thread are neighbours; -1: none.
  std::vector<int64_t> extents;       ///< Of the tile.
  const ThreadMap *threads = nullptr; ///< Machine level.
};
/// Cells (elements of shared memory, in the order of their addresses) of a stage's elements in row-major order.
using CellMap = std::vector<int32_t>;
struct AllocSharedInfo {
  int64_t cells;
};
struct StageInfo {
  int64_t stages, cells; ///< Cells of one.
};
struct SharedInfo {
  std::vector<int64_t> extents;
  const CellMap *cells = nullptr;
  const ThreadMap *threads = nullptr;
};
/// A copy of tma or cp_async: a box of global memory, and the shared memory that has its elements in the same order.
struct TmaInfo {
  AccessInfo box;
  SharedInfo memory;
  int64_t bytes = 0;
  int64_t columnsOfStart = 1; ///< What the last index is a multiple of.
  bool tf32 = false;          ///< Loaded elements are rounded.
};
/// ldmatrix: the box that is read, as its result has it.
struct LdMatrixInfo {
  Type memory;
  std::vector<int64_t> extents;
  const ThreadMap *threads = nullptr;
  bool transposed = false;
};
struct MbarrierInfo {
  size_t first = 0; ///< Among the kernel's.
  int64_t mbarriers = 1, count = 1;
};
struct RoleInfo {
  std::unique_ptr<Body> body;
  int64_t warps = 1, instances = 1, firstWarp = 0;
  bool oneThread = false;
};
/// extract_tile.
struct PartInfo {
  std::vector<int64_t> whole, part;
};
struct ReduceInfo {
  OpKind combiner{};
  std::unique_ptr<Body> region; ///< Null with a built-in combiner.
  std::vector<DType> accumulators;
  std::vector<Scalar> inits; ///< Of the accumulators' types.
  std::vector<int64_t> extents;
  struct Axis {
    int axis = 0;
    std::vector<ReductionStep> steps;
    /// Which of the positions that are left, in ascending order of their elements, each position of the result is; empty: the same.
    std::vector<int64_t> order;
  };
  std::vector<Axis> axes; ///< In the order in which they are reduced.
};
/// One operand of a dot, seen as [contracted positions][outer positions].
struct DotOperand {
  std::vector<int64_t> loop, stride; ///< Extents and element strides of the contracted axes, then of its outer axes.
  int64_t outer = 1;                 ///< Outer positions.
  std::vector<int32_t> readers;      ///< Machine level: per outer position, which threads read it.
  const CellMap *cells = nullptr;    ///< Of shared memory.
};
struct DotInfo {
  bool async = false;        ///< wgmma.
  bool roundsToTf32 = false; ///< mma of f32.
  int64_t contracted = 1;
  DotOperand lhs, rhs;
  DType compute;
  /// The elements of acc in runs of `run`; within one, an operand moves `step` (0 or 1) outer positions an element.
  struct Run {
    int64_t acc, lhs, rhs;
  };
  std::vector<Run> runs;
  int64_t run = 1;
  int lhsStep = 0, rhsStep = 0;
};

struct Instr {
  const Operation *op;
  OpKind kind;
  std::string_view predicate; ///< compare's.
  std::vector<int> in, out;
  std::vector<int> release; ///< Slots that nothing after this reads.
  uint32_t ordinal = 0;     ///< Position in the kernel's text.
  std::variant<std::monostate, ConstantInfo, ProgramIdInfo, ForInfo, IotaInfo, InBoundsInfo, BroadcastInfo, SpreadInfo, AccessInfo,
               AllocSharedInfo, StageInfo, SharedInfo, TmaInfo, LdMatrixInfo, MbarrierInfo, RoleInfo, PartInfo, ReduceInfo, DotInfo>
      info;
};

struct Body {
  std::vector<int> args, yields;
  std::vector<Instr> instrs;
};

/// The block of a loop, a role or a reduction's combiner; null if there is none.
Body *bodyOf(const Instr &instr);

/// A buffer, or the one that a tensor map stands for. Its memory is the elements from the lowest to the highest address.
struct BufferParam {
  std::string name;
  DType dtype;
  std::vector<int64_t> shape, strides;
  bool strided = false;
  ElementSpan span;
  bool stored = false;
  /// "[2, 3]", or where strides say no more, "offset 17".
  std::string placeText(int64_t element) const;
};

struct PreparedKernel {
  const Function *function;
  std::vector<BufferParam> buffers;
  std::vector<Type> slotTypes;
  std::vector<const Instr *> instrs; ///< By ordinal.
  Body body;
  size_t agents = 1, mbarriers = 0; ///< The body and all instances of roles; all mbarriers.
  std::map<std::pair<Layout, std::vector<int64_t>>, ThreadMap> threadMaps;
  std::map<Type, CellMap> cellMaps;
  int64_t elementsOf(int slot) const { return slotElements[size_t(slot)]; }
  std::vector<int64_t> slotElements; ///< Lanes of a scalar (1), tile or smem.
};

/// `kernel` must have passed the verifier. `strides`: of the strided buffers, one axis after the other. Fails where a size is not
/// bound or too large, or an op cannot be interpreted.
Expected<std::unique_ptr<PreparedKernel>> prepareKernel(const Function &kernel, const DimBindings &dims,
                                                        std::span<const int64_t> strides);

/// "[2, 3]": the index of an element that is `offset` in row-major order.
std::string indexText(std::span<const int64_t> shape, int64_t offset);
/// Product of sizes, nullopt if one is negative or the product overflows.
std::optional<int64_t> checkedProduct(std::span<const int64_t> sizes);

} // namespace minic::interp
