// Global memory: load and store.
#include "Lowering.h"

#include <algorithm>
#include <bit>

namespace minic::codegen {

namespace {

/// Registers that move together: `first` .. `first + vec - 1`.
struct Group {
  int64_t first;
  std::vector<int64_t> index; ///< What register `first` adds to the thread's position along each tile axis.
};

/// The addresses of one load or store.
class Access {
public:
  /// `firstIndex` is the position of the operand that is the first index.
  Access(KernelLowering &k, Operation &op, Type tile, Value *buffer, unsigned firstIndex);

  /// False, with a diagnostic made, if the text asks for what no access can do.
  bool isValid() const { return valid; }
  /// The groups that hold distinct elements.
  const std::vector<Group> &groups() const { return groupList; }
  /// Groups in bundles whose lanes are inside together: where no axis is masked, one bundle.
  std::vector<std::vector<const Group *>> bundles() const;
  /// True in the threads where the group is inside the buffer; null if it always is.
  llvm::Value *isInside(const Group &group) { return isInside(group.index); }
  /// The same for all groups.
  llvm::Value *areAllInside();
  /// Address of element `offset` of the group.
  llvm::Value *address(const Group &group, int64_t offset);
  /// Elements that one instruction moves.
  int64_t width() const { return pieceWidth; }
  int64_t vec() const { return groupSize; }
  llvm::Type *pieceType() const;
  llvm::Align pieceAlign() const { return llvm::Align(uint64_t(pieceWidth * dtypeBytes(dtype))); }
  DType dtype;

private:
  llvm::Value *isInside(const std::vector<int64_t> &index);
  std::vector<int64_t> maskKey(const Group &group) const;

  KernelLowering &k;
  std::vector<int> tileAxis;                          ///< Of each buffer axis.
  std::vector<llvm::Value *> strides;                 ///< Of each buffer axis, in elements.
  std::vector<std::pair<int, llvm::Value *>> limits;  ///< Of masked tile axes.
  llvm::Value *pointer;                               ///< To the thread's element at register position 0.
  std::vector<Group> groupList;
  int64_t groupSize, pieceWidth;
  bool valid = true;
};

Access::Access(KernelLowering &k, Operation &op, Type tile, Value *buffer, unsigned firstIndex) : dtype(tile.dtype()), k(k) {
  const std::vector<DimExpr> &shape = buffer->type().shape();
  const Layout &layout = *tile.layout();
  size_t rank = shape.size();
  if (op.attr("dims"))
    for (int64_t axis : op.intsAttr("dims"))
      tileAxis.push_back(int(axis));
  else
    for (size_t axis = 0; axis < rank; ++axis)
      tileAxis.push_back(int(axis));

  // The thread's part and the program's part apart, so that loops find what does not change.
  strides.resize(rank);
  DimExpr stride = 1;
  for (size_t axis = rank; axis-- > 0;) {
    strides[axis] = k.size(stride);
    stride = shape[axis] * stride;
  }
  llvm::Value *thread = k.i64(0), *program = k.i64(0);
  IRBuilder &ir = k.ir;
  for (size_t axis = 0; axis < rank; ++axis) {
    llvm::Value *position = ir.CreateZExt(k.threadOffset(layout, tileAxis[axis]), ir.getInt64Ty(), "", /*IsNonNeg=*/true);
    thread = addIndex(ir, thread, mulIndex(ir, position, strides[axis]));
    program = addIndex(ir, program, mulIndex(ir, k.scalar(op.operand(firstIndex + unsigned(axis))), strides[axis]));
  }
  llvm::Type *element = k.memoryType(dtype);
  pointer = ir.CreateGEP(element, ir.CreateGEP(element, k.scalar(buffer), thread), program);

  if (op.attr("mask"))
    for (int64_t masked : op.intsAttr("mask"))
      for (size_t axis = 0; axis < rank; ++axis)
        if (tileAxis[axis] == masked)
          limits.push_back({int(masked), k.limit(k.scalar(op.operand(firstIndex + unsigned(axis))), shape[axis], layout, int(masked))});

  // 16 bytes are the widest access of all targets, and what buffers are aligned to.
  groupSize = op.attr("vec") ? op.intAttr("vec") : 1;
  pieceWidth = std::min<int64_t>(std::max<int64_t>(16 / dtypeBytes(dtype), 1), groupSize & -groupSize);
  std::vector<int64_t> index(size_t(tile.rank()), 0);
  if (groupSize < 1 || layout.numRegs() % groupSize != 0 || (groupSize > 1 && rank == 0)) {
    k.fail(op, "has vec = " + std::to_string(groupSize) + ", which does not divide its " + std::to_string(layout.numRegs()) + " registers");
    valid = false;
    return;
  }
  for (int64_t r = 0; r < layout.numRegs(); ++r) {
    std::fill(index.begin(), index.end(), 0);
    layout.addRegister(r, index);
    if (r % groupSize == 0) {
      groupList.push_back({r, index});
      continue;
    }
    index[size_t(tileAxis.back())] -= r % groupSize;
    if (index != groupList.back().index) {
      k.fail(op, "has vec = " + std::to_string(groupSize) + ", but its registers are not contiguous along the last axis of the buffer");
      valid = false;
      return;
    }
  }
}

std::vector<int64_t> Access::maskKey(const Group &group) const {
  std::vector<int64_t> key;
  for (const auto &[axis, limit] : limits)
    key.push_back(group.index[size_t(axis)]);
  return key;
}

std::vector<std::vector<const Group *>> Access::bundles() const {
  std::vector<std::vector<const Group *>> result;
  std::map<std::vector<int64_t>, size_t> positions;
  for (const Group &group : groupList) {
    auto [it, isNew] = positions.try_emplace(maskKey(group), result.size());
    if (isNew)
      result.emplace_back();
    result[it->second].push_back(&group);
  }
  return result;
}

llvm::Value *Access::isInside(const std::vector<int64_t> &index) {
  llvm::Value *inside = nullptr;
  for (const auto &[axis, limit] : limits)
    inside = k.both(inside, k.ir.CreateICmpSGT(limit, k.i32(index[size_t(axis)])));
  return inside;
}

llvm::Value *Access::areAllInside() {
  std::vector<int64_t> last = groupList.front().index;
  for (const Group &group : groupList)
    for (size_t axis = 0; axis < last.size(); ++axis)
      last[axis] = std::max(last[axis], group.index[axis]);
  return isInside(last);
}

llvm::Value *Access::address(const Group &group, int64_t offset) {
  llvm::Value *elements = k.i64(offset);
  for (size_t axis = 0; axis < strides.size(); ++axis)
    elements = addIndex(k.ir, elements, mulIndex(k.ir, k.i64(group.index[size_t(tileAxis[axis])]), strides[axis]));
  // Called where the element is inside, which makes the thread's first position (no larger along any axis) inside as well.
  return k.ir.CreateInBoundsGEP(k.memoryType(dtype), pointer, elements);
}

llvm::Type *Access::pieceType() const {
  llvm::Type *element = k.memoryType(dtype);
  return pieceWidth == 1 ? element : llvm::FixedVectorType::get(element, unsigned(pieceWidth));
}

} // namespace

void lowerLoad(KernelLowering &k, Operation &op) {
  Type type = op.result()->type();
  Value *buffer = op.operand(0);
  Access access(k, op, type, buffer, 1);
  if (!access.isValid())
    return;
  IRBuilder &ir = k.ir;
  const Attribute *fillAttr = op.attr("fill");
  llvm::Constant *fill = fillAttr ? k.number(*fillAttr, type.dtype()) : llvm::Constant::getNullValue(k.elementType(type.dtype()));
  bool invariant = !k.isStored(buffer);
  llvm::MDNode *empty = llvm::MDNode::get(ir.getContext(), {});

  Registers result(size_t(type.layout()->numRegs()));
  for (const auto &bundle : access.bundles()) {
    llvm::Value *inside = access.isInside(*bundle.front());
    llvm::BasicBlock *outside = ir.GetInsertBlock(), *then = nullptr;
    std::vector<size_t> loaded;
    k.guarded(inside, [&] {
      for (const Group *group : bundle)
        for (int64_t piece = 0; piece < access.vec(); piece += access.width()) {
          llvm::LoadInst *load = ir.CreateAlignedLoad(access.pieceType(), access.address(*group, piece), access.pieceAlign());
          if (invariant)
            load->setMetadata(llvm::LLVMContext::MD_invariant_load, empty);
          for (int64_t i = 0; i < access.width(); ++i) {
            llvm::Value *element = access.width() == 1 ? load : ir.CreateExtractElement(load, uint64_t(i));
            loaded.push_back(size_t(group->first + piece + i));
            result[loaded.back()] = k.fromMemory(element, type.dtype());
          }
        }
      then = ir.GetInsertBlock();
    });
    if (!inside)
      continue;
    for (size_t r : loaded) {
      llvm::PHINode *phi = ir.CreatePHI(fill->getType(), 2);
      phi->addIncoming(result[r], then);
      phi->addIncoming(fill, outside);
      result[r] = phi;
    }
  }
  k.set(op.result(), std::move(result));
}

/// Stores one group.
static void storeGroup(KernelLowering &k, Access &access, const Group &group, const Registers &value) {
  for (int64_t piece = 0; piece < access.vec(); piece += access.width()) {
    llvm::Value *data = llvm::PoisonValue::get(access.pieceType());
    for (int64_t i = 0; i < access.width(); ++i) {
      llvm::Value *element = k.toMemory(value[size_t(group.first + piece + i)], access.dtype);
      data = access.width() == 1 ? element : k.ir.CreateInsertElement(data, element, uint64_t(i));
    }
    k.ir.CreateAlignedStore(data, access.address(group, piece), access.pieceAlign());
  }
}

void lowerStore(KernelLowering &k, Operation &op) {
  Type type = op.operand(0)->type();
  Access access(k, op, type, op.operand(1), 2);
  if (!access.isValid())
    return;
  const Registers &value = k.get(op.operand(0));
  llvm::Value *isHolder = k.isHolder(*type.layout());
  std::map<std::vector<int64_t>, int64_t> firstHolders; // Registers that replicate an element come later and are skipped.
  for (const Group &group : access.groups())
    firstHolders.try_emplace(group.index, group.first);
  auto bundles = access.bundles();
  auto storeBundle = [&](const std::vector<const Group *> &bundle) {
    for (const Group *group : bundle)
      if (firstHolders.at(group->index) == group->first)
        storeGroup(k, access, *group, value);
  };
  auto storeInside = [&] {
    for (const auto &bundle : bundles)
      k.guarded(k.both(access.isInside(*bundle.front()), isHolder), [&] { storeBundle(bundle); });
  };
  if (bundles.size() == 1)
    return storeInside();
  // Threads that are wholly inside store without a test in between. It also keeps LLVM from moving what computes a value into the branch
  // that stores it, where the computations of the bundles could not overlap any more.
  k.guarded(k.both(access.areAllInside(), isHolder),
            [&] {
              for (const auto &bundle : bundles)
                storeBundle(bundle);
            },
            storeInside);
}

} // namespace minic::codegen
