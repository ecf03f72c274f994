// Types: interned, compared by pointer.
#pragma once

#include "minic/IR/Layout.h"
#include "minic/Support/DType.h"
#include "minic/Support/DimExpr.h"

#include <cassert>
#include <string>
#include <vector>

namespace minic {

class Context;

enum class TypeKind : uint8_t {
  Scalar,   ///< `f32`, `index`: one value, the same for all threads of a CTA unless a combiner or expansion holds it.
  Tensor,   ///< `tensor<MxNxf32>`: a value of a graph.
  Buffer,   ///< `buffer<MxNxf32>`: row-major global memory, of kernels and plans, that starts at a multiple of 16 bytes;
            ///< `buffer<MxNxf32, strided>`: where the caller has it, with strides given at run time.
  Tile,     ///< `tile<4x1024xf32>`, with a layout `tile<4x1024xf32, #l>` at the machine level: a value of one CTA, integer extents.
  Smem,     ///< `smem<64x16xf32, strides = [1, 68]>`: shared memory of one CTA (strides in elements, row-major if not given);
            ///< `smem<64x256xbf16, #swizzle128, stages = 4>`: see SharedLayout.h.
  Inflight, ///< `inflight<tile<64x256xf32, #l>>`: accumulators that the tensor cores are still working on.
  Mbarrier, ///< `mbarrier<4>`: an array of mbarriers in shared memory.
  TensorMap, ///< `tensor_map<KxNxbf16, box = [64, 256], #swizzle128>`: how TMA sees a buffer; one box moves at a time.
             ///< `tensor_map<KxNxf32, box = [64, 32], #swizzle128, tf32>`: f32 that TMA rounds to tf32 as it loads.
};

struct TypeStorage {
  TypeKind kind;
  DType dtype;
  std::vector<DimExpr> shape;
  const Layout *layout = nullptr; ///< Tiles of the machine level.
  std::vector<int64_t> strides;   ///< Shared memory; empty means row-major.
  int64_t swizzle = 0;            ///< Shared memory and tensor maps: bytes of a swizzled row; 0: none.
  int64_t slab = 0;               ///< Swizzled shared memory: rows from one slab to the next; 0: its own rows.
  int64_t stages = 1;             ///< Shared memory: copies of the shape, one after the other.
  std::vector<int64_t> box;       ///< Tensor maps: extents of the box that moves, one per axis.
  bool tf32 = false;              ///< Tensor maps of f32: what is loaded is rounded to tf32.
  bool strided = false;           ///< Buffers: any strides, 0 and negative ones too; the base is aligned to an element.
};

class Type {
public:
  Type() = default;
  explicit Type(const TypeStorage *storage) : storage(storage) {}

  explicit operator bool() const { return storage != nullptr; }
  TypeKind kind() const { return get().kind; }
  DType dtype() const { return get().dtype; }
  const std::vector<DimExpr> &shape() const { return get().shape; }
  int rank() const { return int(get().shape.size()); }
  const Layout *layout() const { return get().layout; }
  const std::vector<int64_t> &strides() const { return get().strides; }
  int64_t swizzle() const { return get().swizzle; }
  int64_t stages() const { return get().stages; }
  const std::vector<int64_t> &box() const { return get().box; }
  bool roundsToTf32() const { return get().tf32; }
  bool isStrided() const { return get().strided; }
  bool isScalar() const { return kind() == TypeKind::Scalar; }
  bool isIndex() const { return isScalar() && dtype() == DType::Index; }
  bool isTensor() const { return kind() == TypeKind::Tensor; }
  bool isBuffer() const { return kind() == TypeKind::Buffer; }
  bool isTile() const { return kind() == TypeKind::Tile; }
  bool isSmem() const { return kind() == TypeKind::Smem; }
  bool isInflight() const { return kind() == TypeKind::Inflight; }
  bool isMbarrier() const { return kind() == TypeKind::Mbarrier; }
  bool isTensorMap() const { return kind() == TypeKind::TensorMap; }
  /// The extents of a tile or smem type, which are integers.
  std::vector<int64_t> extents() const;
  /// Strides of shared memory in elements, row-major ones filled in.
  std::vector<int64_t> smemStrides() const;
  /// Number of elements as an expression.
  DimExpr numElements() const;
  /// `tensor<MxNxf32>`; a layout prints as `#layout<...>` unless the printer gives it an alias.
  std::string str() const;

  friend bool operator==(Type, Type) = default;
  friend auto operator<=>(Type, Type) = default;
  const TypeStorage &get() const {
    assert(storage && "a null type");
    return *storage;
  }

private:
  const TypeStorage *storage = nullptr;
};

} // namespace minic
