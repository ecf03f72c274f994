#include "minic/IR/Context.h"

namespace minic {

std::vector<int64_t> Type::extents() const {
  std::vector<int64_t> result;
  for (const DimExpr &dim : shape()) {
    assert(dim.isConstant() && "extents of a type with named dims");
    result.push_back(*dim.constant());
  }
  return result;
}

std::vector<int64_t> Type::smemStrides() const {
  if (!strides().empty())
    return strides();
  std::vector<int64_t> extent = extents(), result(extent.size());
  int64_t stride = 1;
  for (size_t axis = extent.size(); axis-- > 0;) {
    result[axis] = stride;
    stride *= extent[axis];
  }
  return result;
}

DimExpr Type::numElements() const {
  DimExpr n = 1;
  for (const DimExpr &dim : shape())
    n = n * dim;
  return n;
}

static std::string typeText(const TypeStorage &t) {
  std::string text;
  switch (t.kind) {
  case TypeKind::Scalar:
    return std::string(dtypeName(t.dtype));
  case TypeKind::Tensor:
    text = "tensor<";
    break;
  case TypeKind::Buffer:
    text = "buffer<";
    break;
  case TypeKind::Tile:
    text = "tile<";
    break;
  case TypeKind::Smem:
    text = "smem<";
    break;
  case TypeKind::Inflight:
    text = "inflight<tile<";
    break;
  case TypeKind::Mbarrier:
    return "mbarrier<" + t.shape[0].str() + ">";
  case TypeKind::TensorMap:
    text = "tensor_map<";
    break;
  }
  for (const DimExpr &dim : t.shape) {
    bool simple = dim.isConstant() || isDimName(dim.str());
    text += simple ? dim.str() : "(" + dim.str() + ")";
    text += 'x';
  }
  text += dtypeName(t.dtype);
  if (t.layout)
    text += ", #layout<" + t.layout->str() + ">";
  auto list = [&](std::string_view name, const std::vector<int64_t> &numbers) {
    if (numbers.empty())
      return;
    text += ", " + std::string(name) + " = [";
    for (size_t i = 0; i < numbers.size(); ++i)
      text += (i ? ", " : "") + std::to_string(numbers[i]);
    text += "]";
  };
  list("strides", t.strides);
  list("box", t.box);
  if (t.strided)
    text += ", strided";
  if (t.swizzle)
    text += ", #swizzle" + std::to_string(t.swizzle);
  if (t.tf32)
    text += ", tf32";
  if (t.slab)
    text += ", slab = " + std::to_string(t.slab);
  if (t.stages != 1)
    text += ", stages = " + std::to_string(t.stages);
  return text + (t.kind == TypeKind::Inflight ? ">>" : ">");
}

std::string Type::str() const { return storage ? typeText(*storage) : "<no type>"; }

Type Context::intern(TypeStorage storage) {
  std::string key = typeText(storage);
  auto it = types.find(key);
  if (it == types.end()) {
    storages.push_back(std::move(storage));
    it = types.emplace(std::move(key), &storages.back()).first;
  }
  return Type(it->second);
}

static std::vector<DimExpr> toDims(std::span<const int64_t> extents) { return {extents.begin(), extents.end()}; }

Type Context::scalar(DType dtype) { return intern({TypeKind::Scalar, dtype, {}, nullptr, {}}); }
Type Context::tensor(DType dtype, std::vector<DimExpr> shape) {
  return intern({TypeKind::Tensor, dtype, std::move(shape), nullptr, {}});
}
Type Context::buffer(DType dtype, std::vector<DimExpr> shape) {
  return intern({TypeKind::Buffer, dtype, std::move(shape), nullptr, {}});
}
Type Context::tile(DType dtype, std::span<const int64_t> extents, const Layout *layout) {
  return intern({TypeKind::Tile, dtype, toDims(extents), layout, {}});
}
Type Context::smem(DType dtype, std::span<const int64_t> extents, std::vector<int64_t> strides) {
  return intern({TypeKind::Smem, dtype, toDims(extents), nullptr, std::move(strides)});
}

Type Context::mbarrier(int64_t count) { return intern({TypeKind::Mbarrier, DType::I64, {count}, nullptr, {}}); }

const Layout *Context::layout(Layout value) {
  auto it = layouts.find(value);
  if (it == layouts.end()) {
    layoutStorage.push_back(value);
    it = layouts.emplace(std::move(value), &layoutStorage.back()).first;
  }
  return it->second;
}

Type Context::withDType(Type type, DType dtype) {
  TypeStorage copy = type.get();
  copy.dtype = dtype;
  return intern(std::move(copy));
}
Type Context::withLayout(Type type, const Layout *layout) {
  TypeStorage copy = type.get();
  copy.layout = layout;
  return intern(std::move(copy));
}
Type Context::withShape(Type type, std::vector<DimExpr> shape) {
  TypeStorage copy = type.get();
  copy.shape = std::move(shape);
  return intern(std::move(copy));
}
Type Context::withKind(Type type, TypeKind kind) {
  TypeStorage copy = type.get();
  copy.kind = kind;
  return intern(std::move(copy));
}
Type Context::withStrided(Type type, bool strided) {
  TypeStorage copy = type.get();
  copy.strided = strided;
  return intern(std::move(copy));
}

} // namespace minic
