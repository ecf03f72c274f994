#include "Preparer.h"

#include "minic/IR/Printer.h"
#include "minic/Support/TensorMap.h"

#include <algorithm>
#include <limits>

namespace minic::interp {

std::optional<int64_t> checkedProduct(std::span<const int64_t> sizes) {
  int64_t product = 1;
  bool zero = false, overflow = false;
  for (int64_t size : sizes) {
    if (size < 0)
      return std::nullopt;
    zero |= size == 0;
    overflow |= __builtin_mul_overflow(product, std::max<int64_t>(size, 1), &product);
  }
  if (zero)
    return 0;
  return overflow ? std::nullopt : std::optional(product);
}

std::string indexText(std::span<const int64_t> shape, int64_t offset) {
  std::string text;
  for (size_t axis = shape.size(); axis-- > 0;) {
    int64_t size = std::max<int64_t>(shape[axis], 1);
    text = std::to_string(offset % size) + (text.empty() ? "" : ", ") + text;
    offset /= size;
  }
  return "[" + text + "]";
}

std::string BufferParam::placeText(int64_t element) const {
  return strided ? "offset " + std::to_string(element + span.lowest) : indexText(shape, element);
}

bool Preparer::fail(ErrorCode code, std::string message, const Operation *op) {
  if (!error) {
    error = Diagnostic{
        .code = code, .message = "kernel '" + function.name + "': " + std::move(message), .loc = op ? op->loc() : function.loc};
    if (op)
      error->note("in: " + printOperation(*op));
  }
  return false;
}

bool Preparer::evaluate(const DimExpr &expr, int64_t &value, const Operation *op) {
  if (auto v = expr.evaluate(dims)) {
    value = *v;
    return true;
  }
  std::vector<std::string> names;
  expr.collectNames(names);
  for (const std::string &name : names)
    if (!dims.count(name))
      return fail(ErrorCode::UnboundDim, "the dimension " + name + " has no value", op);
  return fail(ErrorCode::BadDim, "the size " + expr.str() + " does not fit 64 bits", op);
}

bool Preparer::evaluate(std::span<const DimExpr> exprs, std::vector<int64_t> &values, const Operation *op) {
  values.resize(exprs.size());
  for (size_t i = 0; i < exprs.size(); ++i)
    if (!evaluate(exprs[i], values[i], op))
      return false;
  return true;
}

bool Preparer::newSlot(const Value *value, int &slot) {
  int64_t elements = 1;
  if (Type type = value->type(); type.isTile() || type.isInflight() || type.isSmem()) {
    auto n = checkedProduct(type.extents());
    if (!n || *n > maxTileElements)
      return fail(ErrorCode::TooLarge, "the type " + type.str() + " is too large to be interpreted", value->definition());
    elements = *n;
  }
  slot = int(kernel->slotTypes.size());
  kernel->slotTypes.push_back(value->type());
  kernel->slotElements.push_back(elements);
  slots[value] = slot;
  return true;
}

bool Preparer::addParam(const Value &param) {
  int slot;
  if (!newSlot(&param, slot))
    return false;
  Type type = param.type();
  if (!type.isBuffer() && !type.isTensorMap())
    return fail(ErrorCode::CannotInterpret, "the parameter '" + param.name() + "' is not a buffer or a tensor map");
  BufferParam buffer{.name = param.name(), .dtype = type.dtype()};
  if (buffer.name.empty())
    buffer.name = std::to_string(kernel->buffers.size()); // As the printer names it.
  if (!evaluate(type.shape(), buffer.shape))
    return false;
  auto elements = checkedProduct(buffer.shape);
  if (!elements || *elements > std::numeric_limits<int64_t>::max() / 8)
    return fail(ErrorCode::TooLarge, "the buffer '" + buffer.name + "' is too large");
  if (type.isTensorMap())
    if (auto fault = tensorMapFault(type.dtype(), {buffer.shape.begin(), buffer.shape.end()}, type.box(), type.swizzle()))
      return fail(ErrorCode::LaunchMismatch, "the parameter '" + buffer.name + "' " + *fault);
  buffer.strides = rowMajorStrides(buffer.shape);
  buffer.span = {0, *elements};
  if (type.isStrided()) {
    size_t rank = buffer.shape.size();
    if (strides.size() < rank)
      return fail(ErrorCode::LaunchMismatch, "the launch gives too few strides");
    buffer.strides.assign(strides.begin(), strides.begin() + std::ptrdiff_t(rank));
    strides = strides.subspan(rank);
    auto span = elementSpan(buffer.shape, buffer.strides);
    if (!span || span->size() > std::numeric_limits<int64_t>::max() / 8)
      return fail(ErrorCode::TooLarge, "the strides of the buffer '" + buffer.name + "' reach too far");
    buffer.span = *span;
    buffer.strided = true;
  }
  kernel->buffers.push_back(std::move(buffer));
  return true;
}

const ThreadMap *Preparer::threadsOf(Type type) { return type.layout() ? threadsOf(*type.layout(), type.extents()) : nullptr; }

const ThreadMap *Preparer::threadsOf(const Layout &layout, const std::vector<int64_t> &extents) {
  std::vector<int64_t> strides = rowMajorStrides(extents);
  auto [it, isNew] = kernel->threadMaps.try_emplace({layout, extents});
  ThreadMap &map = it->second;
  if (!isNew)
    return &map;
  // An element's index is a sum of what the register, and the thread, contribute, so its row-major offset is one too.
  std::vector<int64_t> index(extents.size());
  auto offset = [&] {
    int64_t sum = 0;
    for (size_t a = 0; a < index.size(); ++a)
      sum += index[a] * strides[a];
    return sum;
  };
  std::vector<int64_t> regs;
  for (int64_t r = 0; r < layout.numRegs(); ++r) {
    std::fill(index.begin(), index.end(), 0);
    layout.addRegister(r, index);
    regs.push_back(offset());
  }
  int64_t elements = *checkedProduct(extents), lanes = layout.numLanes();
  map.writer.assign(size_t(elements), noThread);
  map.reader.assign(size_t(elements), noThread);
  for (int64_t thread = 0; thread < lanes * layout.numWarps(); ++thread) {
    std::fill(index.begin(), index.end(), 0);
    layout.addThread(thread % lanes, thread / lanes, index);
    int64_t base = offset();
    for (int64_t reg : regs) {
      if (base + reg >= elements)
        continue;
      int32_t &writer = map.writer[size_t(base + reg)], &reader = map.reader[size_t(base + reg)];
      if (writer == noThread)
        writer = reader = int32_t(thread);
      else if (writer != int32_t(thread))
        reader = manyThreads;
    }
  }
  return &map;
}

bool Preparer::prepareConstant(const Operation &op, Instr &instr) {
  const Attribute *value = op.attr("value");
  DType dtype = op.result()->type().dtype();
  std::vector<Scalar> flat = constantElements(*value, dtype);
  int64_t elements = kernel->elementsOf(instr.out[0]);
  if (flat.size() != 1 && int64_t(flat.size()) != elements)
    return fail(ErrorCode::BadConstant, "a constant has " + std::to_string(flat.size()) + " elements", &op);
  ConstantInfo info{LaneArray::make(dtype, int64_t(flat.size()))};
  if (!info.value.data)
    return fail(ErrorCode::OutOfMemory, "no memory for a constant", &op);
  for (size_t i = 0; i < flat.size(); ++i)
    writeScalar(info.value.data.get() + i * size_t(dtypeBytes(dtype)), flat[i], dtype);
  instr.info = std::move(info);
  return true;
}

bool Preparer::prepareAccess(const Operation &op, Instr &instr, bool store) {
  Type tile = store ? op.operand(0)->type() : op.result()->type();
  const Value *memory = op.operand(store ? 1 : 0);
  if (!memory->argumentOf() || memory->argumentOf() != &function.body())
    return fail(ErrorCode::CannotInterpret, "the buffer of an access is not a parameter of the kernel", &op);
  BufferParam &buffer = kernel->buffers[memory->index()];
  buffer.stored |= store;
  AccessInfo info;
  info.absentOutside = function.level == Level::Tile;
  info.extents = tile.isTile() ? tile.extents() : std::vector<int64_t>();
  if (op.attr("dims"))
    for (int64_t axis : op.intsAttr("dims"))
      info.dims.push_back(int(axis));
  else
    for (size_t axis = 0; axis < buffer.shape.size(); ++axis)
      info.dims.push_back(int(axis));
  size_t indices = op.numOperands() - (store ? 2 : 1);
  info.steps = op.optionalInts("steps");
  bool fits = info.dims.size() == buffer.shape.size() && indices == buffer.shape.size() &&
              (info.steps.empty() || info.steps.size() == info.dims.size());
  for (size_t a = 0; fits && a < info.dims.size(); ++a) {
    bool isTile = op.operand(unsigned(a) + (store ? 2 : 1))->type().isTile();
    if (info.dims[a] == -1 && !isTile)
      info.dims[a] = AccessInfo::oneIndex;
    fits &= info.step(a) > 0 &&
            (isTile ? info.dims[a] == AccessInfo::ownIndices
                    : info.dims[a] == AccessInfo::oneIndex || (info.dims[a] >= 0 && size_t(info.dims[a]) < info.extents.size()));
  }
  if (!fits)
    return fail(ErrorCode::BadStructure, "an access does not fit its buffer", &op);
  info.masked.assign(info.extents.size(), info.absentOutside);
  if (op.attr("mask"))
    for (int64_t axis : op.intsAttr("mask"))
      if (axis >= 0 && size_t(axis) < info.masked.size())
        info.masked[size_t(axis)] = true;
  if (const Attribute *fill = op.attr("fill"))
    info.fill = Scalar::of(*fill, tile.dtype());
  if (tile.isTile() && tile.layout()) {
    info.threads = threadsOf(tile);
    if (op.attr("vec"))
      info.vec = op.intAttr("vec");
    info.splitsEdges = op.attr("edges") != nullptr;
    if (info.vec > 1) {
      const auto &regs = tile.layout()->reg;
      if (regs.empty() || regs[0].axis < 0 || regs[0].stride != 1 || regs[0].extent % info.vec)
        return fail(ErrorCode::BadLayout, "vec = " + std::to_string(info.vec) + ", and the layout holds no such run of elements",
                    &op);
      info.vecAxis = regs[0].axis;
    }
  }
  instr.info = std::move(info);
  return true;
}

bool Preparer::prepareOp(const Operation &op, Instr &instr) {
  switch (op.kind()) {
  case OpKind::Constant:
    return prepareConstant(op, instr);
  case OpKind::Dim: {
    int64_t value;
    if (!evaluate(op.attr("expr")->asDim().value_or(0), value, &op))
      return false;
    ConstantInfo info{LaneArray::make(DType::Index, 1)};
    writeScalar(info.value.data.get(), Scalar{uint64_t(value)}, DType::Index);
    instr.info = std::move(info);
    return true;
  }
  case OpKind::ProgramId: {
    ProgramIdInfo info;
    if (!evaluate(op.dimsAttr("grid"), info.grid, &op))
      return false;
    instr.info = std::move(info);
    return true;
  }
  case OpKind::For: {
    ForInfo info{std::make_unique<Body>()};
    bool ok = prepareBlock(op.region(), *info.body);
    instr.info = std::move(info);
    return ok;
  }
  case OpKind::Iota:
    instr.info = IotaInfo{*op.result()->type().numElements().constant()}; // 1 along the other axes.
    return true;
  case OpKind::InBounds: {
    int64_t bound;
    if (!evaluate(op.attr("size")->asDim().value_or(0), bound, &op))
      return false;
    instr.info = InBoundsInfo{bound, op.result()->type().extents()[size_t(op.intAttr("axis"))]};
    return true;
  }
  case OpKind::Broadcast: {
    Type from = op.operand(0)->type();
    instr.info = BroadcastInfo{from.isTile() ? from.extents() : std::vector<int64_t>(), op.result()->type().extents()};
    return true;
  }
  case OpKind::Load:
    return prepareAccess(op, instr, false);
  case OpKind::Store:
    return prepareAccess(op, instr, true);
  case OpKind::Reduce:
    return prepareReduce(op, instr);
  case OpKind::Dot:
    return prepareDot(op, instr);
  default:
    if (!op.info().elementwise)
      return prepareMachine(op, instr);
    instr.predicate = op.wordAttr("predicate");
    return true;
  }
}

bool Preparer::prepareBlock(const Block &block, Body &body) {
  for (const Value *argument : block.arguments())
    if (&block != &function.body() && !newSlot(argument, body.args.emplace_back()))
      return false;
  for (const Operation &op : block) {
    if (op.info().terminator) {
      for (const Value *operand : op.operands())
        body.yields.push_back(slots.at(operand));
      break;
    }
    Instr instr{.op = &op, .kind = op.kind()};
    for (const Value *operand : op.operands())
      instr.in.push_back(slots.at(operand));
    for (const Value *result : op.results())
      if (!newSlot(result, instr.out.emplace_back()))
        return false;
    if (!prepareOp(op, instr))
      return false;
    body.instrs.push_back(std::move(instr));
  }
  findLastUses(body, body.yields);
  return true;
}

Body *bodyOf(const Instr &instr) {
  if (auto *loop = std::get_if<ForInfo>(&instr.info))
    return loop->body.get();
  if (auto *role = std::get_if<RoleInfo>(&instr.info))
    return role->body.get();
  if (auto *reduce = std::get_if<ReduceInfo>(&instr.info))
    return reduce->region.get();
  return nullptr;
}

namespace {

/// The slots that an instruction reads, those of its regions included.
void collectReads(const Instr &instr, std::vector<int> &reads) {
  reads.insert(reads.end(), instr.in.begin(), instr.in.end());
  const Body *inner = bodyOf(instr);
  if (!inner)
    return;
  for (const Instr &nested : inner->instrs)
    collectReads(nested, reads);
  reads.insert(reads.end(), inner->yields.begin(), inner->yields.end());
}

} // namespace

void Preparer::findLastUses(Body &body, std::span<const int> yields) {
  // Only what this block defines dies in it: an outer value is still needed in the next trip.
  std::unordered_map<int, size_t> last;
  for (size_t i = 0; i < body.instrs.size(); ++i)
    for (int slot : body.instrs[i].out)
      last[slot] = i;
  for (int slot : body.args)
    last[slot] = body.instrs.size(); // Reads below make it earlier; one that is never read is overwritten in the next trip.
  std::vector<int> reads;
  for (size_t i = 0; i < body.instrs.size(); ++i) {
    reads.clear();
    collectReads(body.instrs[i], reads);
    for (int slot : reads)
      if (auto it = last.find(slot); it != last.end())
        it->second = i;
  }
  for (int slot : yields)
    last.erase(slot);
  for (auto [slot, at] : last)
    if (at < body.instrs.size())
      body.instrs[at].release.push_back(slot);
}

void Preparer::number(Body &body) {
  for (Instr &instr : body.instrs) {
    instr.ordinal = uint32_t(kernel->instrs.size());
    kernel->instrs.push_back(&instr);
    if (Body *inner = bodyOf(instr))
      number(*inner);
  }
}

Expected<std::unique_ptr<PreparedKernel>> Preparer::run() {
  kernel = std::make_unique<PreparedKernel>();
  kernel->function = &function;
  bool ok = true;
  for (const Value *param : function.params())
    ok = ok && addParam(*param);
  ok = ok && prepareBlock(function.body(), kernel->body);
  if (!ok)
    return std::move(*error);
  number(kernel->body);
  return std::move(kernel);
}

Expected<std::unique_ptr<PreparedKernel>> prepareKernel(const Function &kernel, const DimBindings &dims,
                                                        std::span<const int64_t> strides) {
  return Preparer(kernel, dims, strides).run();
}

} // namespace minic::interp
