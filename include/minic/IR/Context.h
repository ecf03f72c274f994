// Owner of types and layouts. Everything that shares IR shares a context; a context is used by one thread at a time.
#pragma once

#include "minic/IR/Type.h"

#include <deque>
#include <map>
#include <span>

namespace minic {

class Context {
public:
  Context() = default;
  Context(const Context &) = delete;
  Context &operator=(const Context &) = delete;

  Type scalar(DType dtype);
  Type index() { return scalar(DType::Index); }
  Type tensor(DType dtype, std::vector<DimExpr> shape);
  Type buffer(DType dtype, std::vector<DimExpr> shape);
  Type tile(DType dtype, std::span<const int64_t> extents, const Layout *layout = nullptr);
  Type smem(DType dtype, std::span<const int64_t> extents, std::vector<int64_t> strides = {});
  Type mbarrier(int64_t count);
  /// `type` as it is written; every property counts.
  Type type(TypeStorage storage) { return intern(std::move(storage)); }
  const Layout *layout(Layout layout);

  /// `type` with another element type, layout, shape, kind or strides.
  Type withDType(Type type, DType dtype);
  Type withLayout(Type type, const Layout *layout);
  Type withShape(Type type, std::vector<DimExpr> shape);
  Type withKind(Type type, TypeKind kind);
  /// A buffer with strides of its own, or a row-major one.
  Type withStrided(Type type, bool strided);

private:
  Type intern(TypeStorage storage);
  std::deque<TypeStorage> storages;
  std::map<std::string, const TypeStorage *> types; ///< By text, which names every property.
  std::deque<Layout> layoutStorage;
  std::map<Layout, const Layout *> layouts;
};

} // namespace minic
