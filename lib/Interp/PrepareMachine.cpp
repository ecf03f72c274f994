// Ops of the machine level made ready: where shared memory's elements lie, who runs a role, and the copies of tma.
#include "Preparer.h"

#include "minic/IR/Roles.h"
#include "minic/IR/SharedLayout.h"

#include <limits>
#include <numeric>

namespace minic::interp {

bool Preparer::prepareAllocShared(const Operation &op, Instr &instr) {
  Type memory = op.result()->type();
  int64_t cells = sharedBytes(memory) / dtypeBytes(memory.dtype());
  if (cells > maxSharedElements)
    return fail(ErrorCode::TooLarge, "the type " + memory.str() + " is too large to be interpreted", &op);
  instr.info = AllocSharedInfo{cells};
  return true;
}

const CellMap *Preparer::cellsOf(Type memory) {
  auto [it, isNew] = kernel->cellMaps.try_emplace(memory);
  CellMap &cells = it->second;
  if (!isNew)
    return &cells;
  std::vector<int64_t> extents = memory.extents(), index(extents.size(), 0);
  int64_t bytes = dtypeBytes(memory.dtype()), count = checkedProduct(extents).value_or(0);
  for (int64_t element = 0; element < count; ++element) {
    int64_t rest = element;
    for (size_t axis = extents.size(); axis-- > 0; rest /= extents[axis])
      index[axis] = rest % extents[axis];
    cells.push_back(int32_t(elementOffset(memory, index) / bytes));
  }
  return &cells;
}

/// `tile`: what the elements move to or from; null where one thread moves them.
SharedInfo Preparer::sharedInfo(Type memory, Type tile) {
  return {.extents = memory.extents(), .cells = cellsOf(memory), .threads = tile ? threadsOf(tile) : nullptr};
}

bool Preparer::prepareTma(const Operation &op, Instr &instr) {
  bool store = op.is(OpKind::TmaStore);
  const Value *map = op.operand(store ? 1 : 0);
  if (map->argumentOf() != &function.body())
    return fail(ErrorCode::CannotInterpret, "the tensor map of a copy is not a parameter of the kernel", &op);
  kernel->buffers[map->index()].stored |= store;
  TmaInfo info{.memory = sharedInfo(op.operand(store ? 0 : 1)->type(), Type())};
  // The access of a tile that is checked along every axis.
  info.box.extents = map->type().box();
  info.box.dims.resize(info.box.extents.size());
  std::iota(info.box.dims.begin(), info.box.dims.end(), 0);
  info.box.masked.assign(info.box.extents.size(), true);
  info.box.fill = Scalar{0};
  auto elements = checkedProduct(info.box.extents);
  if (!elements || *elements > maxSharedElements)
    return fail(ErrorCode::TooLarge, "the box of " + map->type().str() + " is too large to be interpreted", &op);
  info.bytes = *elements * dtypeBytes(map->type().dtype());
  info.columnsOfStart = columnsOfStart(map->type());
  info.tf32 = map->type().roundsToTf32();
  instr.info = std::move(info);
  return true;
}

/// The access of a tile with the memory's axes, which are the buffer's last two; pieces are copied by the threads of a layout.
bool Preparer::prepareCpAsync(const Operation &op, Instr &instr) {
  const Value *buffer = op.operand(0);
  if (buffer->argumentOf() != &function.body())
    return fail(ErrorCode::CannotInterpret, "the buffer of a copy is not a parameter of the kernel", &op);
  Type memory = op.operand(1)->type();
  int64_t vec = op.intAttr("vec");
  TmaInfo info{.memory = sharedInfo(memory, Type())};
  info.memory.threads = threadsOf(cpAsyncLayout(memory, vec, threadsAround(op) / 32), memory.extents());
  info.box.extents = memory.extents();
  info.box.dims.assign(size_t(buffer->type().rank()), AccessInfo::oneIndex);
  info.box.dims.end()[-2] = 0;
  info.box.dims.end()[-1] = 1;
  info.box.masked.assign(2, false);
  for (int64_t axis : op.intsAttr("mask"))
    info.box.masked[size_t(axis)] = true;
  info.box.fill = Scalar{0};
  info.box.vec = vec;
  info.box.vecAxis = 1;
  instr.info = std::move(info);
  return true;
}

bool Preparer::prepareSpread(const Operation &op, Instr &instr) {
  Type part = op.operand(0)->type();
  if (!part.layout() || !op.result()->type().layout())
    return fail(ErrorCode::BadLayout, "a spread tile has no layout", &op);
  const ThreadMap *threads = threadsOf(op.result()->type());
  std::vector<int64_t> extents = part.extents(), whole = op.result()->type().extents();
  std::vector<int64_t> strides = rowMajorStrides(extents), index(strides.size());
  SpreadInfo info;
  for (size_t element = 0; element < threads->writer.size(); ++element) {
    std::fill(index.begin(), index.end(), 0);
    part.layout()->addThread(threads->writer[element] % 32, threads->writer[element] / 32, index);
    int64_t rest = int64_t(element);
    for (size_t axis = whole.size(); axis-- > 0; rest /= whole[axis])
      if (extents[axis] == whole[axis])
        index[axis] = rest % whole[axis];
    info.from.push_back(int32_t(std::inner_product(index.begin(), index.end(), strides.begin(), int64_t(0))));
  }
  instr.info = std::move(info);
  return true;
}

bool Preparer::prepareMbarrier(const Operation &op, Instr &instr) {
  MbarrierInfo info{
      .first = kernel->mbarriers, .mbarriers = op.result()->type().shape()[0].getCoefficient(), .count = op.intAttr("count")};
  kernel->mbarriers += size_t(info.mbarriers);
  if (kernel->mbarriers > std::numeric_limits<uint16_t>::max() / 2)
    return fail(ErrorCode::TooLarge, "there are too many mbarriers", &op);
  instr.info = info;
  return true;
}

bool Preparer::prepareRole(const Operation &op, Instr &instr) {
  RoleInfo info{.body = std::make_unique<Body>()};
  info.warps = roleWarps(op);
  info.instances = roleInstances(op);
  info.oneThread = isOneThread(op);
  info.firstWarp = firstWarp(op);
  kernel->agents += size_t(info.instances);
  bool ok = prepareBlock(op.region(), *info.body);
  instr.info = std::move(info);
  return ok;
}

/// A dot of row-major operands, with sums in f32.
DotInfo Preparer::productOf(int64_t rows, int64_t columns, int64_t k) const {
  DotInfo info{.contracted = k, .compute = DType::F32, .run = columns, .rhsStep = 1};
  info.lhs = {.loop = {k, rows}, .stride = {1, k}, .outer = rows};
  info.rhs = {.loop = {k, columns}, .stride = {columns, 1}, .outer = columns};
  for (int64_t row = 0; row < rows; ++row)
    info.runs.push_back({row * columns, row, 0});
  return info;
}

bool Preparer::prepareMma(const Operation &op, Instr &instr) {
  std::vector<int64_t> lhs = op.operand(0)->type().extents(), rhs = op.operand(1)->type().extents();
  DotInfo info = productOf(lhs[0], rhs[1], lhs[1]);
  info.compute = op.result()->type().dtype();
  info.roundsToTf32 = op.operand(0)->type().dtype() == DType::F32;
  instr.info = std::move(info);
  return true;
}

/// A dot of 64xK (Kx64) by KxN (NxK) whose shared operands are read asynchronously, by all threads together.
bool Preparer::prepareWgmma(const Operation &op, Instr &instr) {
  Type lhs = op.operand(0)->type(), rhs = op.operand(1)->type();
  std::vector<int64_t> acc = op.result()->type().extents();
  int64_t rows = acc[0], columns = acc[1], k = rhs.extents()[op.wordAttr("form")[1] == 't' ? 1 : 0];
  DotInfo info = productOf(rows, columns, k);
  info.async = true;
  info.compute = op.result()->type().dtype();
  if (op.wordAttr("form")[0] == 't')
    info.lhs.stride = {rows, 1};
  if (op.wordAttr("form")[1] == 't')
    info.rhs.stride = {1, k};
  if (lhs.isSmem())
    info.lhs.cells = cellsOf(lhs);
  info.rhs.cells = cellsOf(rhs);
  info.lhs.readers.assign(size_t(rows), manyThreads);
  info.rhs.readers.assign(size_t(columns), manyThreads);
  instr.info = std::move(info);
  return true;
}

bool Preparer::prepareMachine(const Operation &op, Instr &instr) {
  switch (op.kind()) {
  case OpKind::AllocShared:
    return prepareAllocShared(op, instr);
  case OpKind::Stage: {
    Type memory = op.operand(0)->type();
    instr.info = StageInfo{memory.stages(), stageBytes(memory) / dtypeBytes(memory.dtype())};
    return true;
  }
  case OpKind::SharedStore:
  case OpKind::StMatrix:
    instr.info = sharedInfo(op.operand(1)->type(), op.operand(0)->type());
    return true;
  case OpKind::SharedLoad:
    instr.info = sharedInfo(op.operand(0)->type(), op.result()->type());
    return true;
  case OpKind::ClusterStore:
    instr.info = sharedInfo(op.operand(1)->type(), op.operand(0)->type());
    return true;
  case OpKind::TmaLoad:
  case OpKind::TmaStore:
    return prepareTma(op, instr);
  case OpKind::CpAsync:
    return prepareCpAsync(op, instr);
  case OpKind::LdMatrix: {
    Type tile = op.result()->type();
    instr.info = LdMatrixInfo{op.operand(0)->type(), tile.extents(), threadsOf(tile), op.wordAttr("form") == "t"};
    return true;
  }
  case OpKind::Mma:
    return prepareMma(op, instr);
  case OpKind::MbarrierInit:
    return prepareMbarrier(op, instr);
  case OpKind::Role:
    return prepareRole(op, instr);
  case OpKind::Wgmma:
    return prepareWgmma(op, instr);
  case OpKind::ExtractTile:
    instr.info = PartInfo{op.operand(0)->type().extents(), op.result()->type().extents()};
    return true;
  case OpKind::Spread:
    return prepareSpread(op, instr);
  case OpKind::ConvertLayout:
  case OpKind::BarrierOp:
  case OpKind::CpAsyncCommit:
  case OpKind::CpAsyncWait:
  case OpKind::ClusterArrive:
  case OpKind::ClusterWait:
  case OpKind::FenceAsync:
  case OpKind::LaunchWait:
  case OpKind::MbarrierArrive:
  case OpKind::MbarrierExpect:
  case OpKind::MbarrierWait:
  case OpKind::SharedView:
  case OpKind::TmaPrefetch:
  case OpKind::TmaStoreWait:
  case OpKind::Undefined:
  case OpKind::WgmmaWait:
    return true;
  default:
    return fail(ErrorCode::CannotInterpret, "the interpreter does not know the op '" + std::string(op.info().name) + "'", &op);
  }
}

} // namespace minic::interp
