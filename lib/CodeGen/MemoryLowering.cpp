// Global memory: load and store.
#include "AsmCall.h"

#include <algorithm>

namespace minic::codegen {

namespace {

/// Registers that move together: `first` .. `first + vec - 1`.
struct Group {
  int64_t first;
  std::vector<int64_t> index; ///< What register `first` adds to the thread's position along each tile axis.
};

/// An index that no rule shows to be 0 or more. Of what passes write, only differences are.
bool mayBeNegative(const Value &index) {
  const Operation *op = index.definition();
  if (!op || op->is(OpKind::ProgramId) || op->is(OpKind::Dim))
    return false; // Counters of loops, too, which start from 0 but where a text says otherwise.
  if (op->is(OpKind::Constant))
    return *op->attr("value")->asInt() < 0;
  if (op->is(OpKind::Add) || op->is(OpKind::Mul))
    return mayBeNegative(*op->operand(0)) || mayBeNegative(*op->operand(1));
  return true;
}

/// base + number * pitch, which wraps as a signed number nowhere, and as an unsigned one not unless a part is `negative`.
llvm::Value *offsetBy(IRBuilder &ir, llvm::Value *base, llvm::Value *number, llvm::Value *pitch, bool negative) {
  if (!negative)
    return addIndex(ir, base, mulIndex(ir, number, pitch));
  return ir.CreateNSWAdd(base, ir.CreateNSWMul(number, pitch));
}

/// The addresses of one load or store.
class Access {
public:
  /// `firstIndex` is the position of the operand that is the first index.
  Access(KernelLowering &k, Operation &op, Type tile, Value *buffer, unsigned firstIndex);

  /// All registers, in order.
  const std::vector<Group> &groups() const { return groupList; }
  /// Groups in bundles whose lanes are inside together: where no axis is masked, one bundle.
  std::vector<std::vector<const Group *>> bundles() const;
  /// True in the threads where the group is inside the buffer; null if it always is.
  llvm::Value *isInside(const Group &group);
  llvm::Value *address(const Group &group);
  int64_t vec() const { return vecSize; }
  llvm::Type *type() const;
  llvm::Align align() const { return llvm::Align(uint64_t(vecSize * dtypeBytes(dtype))); }
  DType dtype;

private:
  std::vector<int64_t> maskKey(const Group &group) const;

  KernelLowering &k;
  /// A tile axis that is checked: register positions o with first <= o < limit are inside; without `first`, all from 0.
  struct Checked {
    int axis;
    llvm::Value *limit, *first;
  };
  std::vector<int> tileAxis;           ///< Of each buffer axis; -1 where lanes have indices of their own.
  std::vector<llvm::Value *> strides;  ///< Of each buffer axis, in elements, from one lane to the next.
  std::vector<llvm::Value *> pitches;  ///< Of each buffer axis, in elements, from one index to the next.
  std::vector<const Registers *> rows; ///< Of each buffer axis: the lanes' own indices, or null.
  std::vector<llvm::Value *> lastRows; ///< The last index of those axes.
  llvm::Value *someRows = nullptr;     ///< False where such an axis is empty; null if that cannot be.
  std::vector<Checked> checks;
  bool strided;         ///< Strides may be negative.
  llvm::Value *pointer; ///< To the thread's element at register position 0.
  std::vector<Group> groupList;
  int64_t vecSize;
};

Access::Access(KernelLowering &k, Operation &op, Type tile, Value *buffer, unsigned firstIndex)
    : dtype(tile.dtype()), k(k), strided(buffer->type().isStrided()) {
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
    strides[axis] = strided ? k.stridesOf(buffer)[axis] : k.size(stride);
    stride = shape[axis] * stride;
  }
  pitches = strides;
  rows.assign(rank, nullptr);
  lastRows.assign(rank, nullptr);
  llvm::Value *thread = k.i64(0), *program = k.i64(0);
  IRBuilder &ir = k.ir;
  std::vector<int64_t> steps = op.attr("steps") ? op.intsAttr("steps") : std::vector<int64_t>(rank, 1);
  for (size_t axis = 0; axis < rank; ++axis) {
    if (tileAxis[axis] < 0) {
      rows[axis] = &k.get(op.operand(firstIndex + unsigned(axis)));
      lastRows[axis] = ir.CreateSub(k.size(shape[axis]), k.i64(1));
      if (!shape[axis].isConstant() || shape[axis].isConstant(0))
        someRows = k.both(someRows, ir.CreateICmpSGE(lastRows[axis], k.i64(0)));
      continue;
    }
    strides[axis] = offsetBy(ir, k.i64(0), strides[axis], k.i64(steps[axis]), strided);
    llvm::Value *position = ir.CreateZExt(k.threadOffset(layout, tileAxis[axis]), ir.getInt64Ty(), "", /*IsNonNeg=*/true);
    thread = offsetBy(ir, thread, position, strides[axis], strided);
    Value *index = op.operand(firstIndex + unsigned(axis));
    program = offsetBy(ir, program, k.scalar(index), pitches[axis], strided || mayBeNegative(*index));
  }
  llvm::Type *element = k.memoryType(dtype);
  pointer = ir.CreateGEP(element, ir.CreateGEP(element, k.scalar(buffer), thread), program);

  for (int64_t masked : op.intsAttr("mask"))
    for (size_t axis = 0; axis < rank; ++axis) {
      if (tileAxis[axis] != masked)
        continue;
      const Value *index = op.operand(firstIndex + unsigned(axis));
      llvm::Value *start = k.scalar(op.operand(firstIndex + unsigned(axis)));
      checks.push_back({int(masked), k.limit(start, shape[axis], layout, int(masked), steps[axis]),
                        mayBeNegative(*index) ? k.first(start, layout, int(masked), steps[axis]) : nullptr});
    }

  vecSize = op.intAttr("vec");
  std::vector<int64_t> index(size_t(tile.rank()));
  for (int64_t r = 0; r < layout.numRegs(); r += vecSize) {
    std::fill(index.begin(), index.end(), 0);
    layout.addRegister(r, index);
    groupList.push_back({r, index});
  }
}

std::vector<int64_t> Access::maskKey(const Group &group) const {
  std::vector<int64_t> key;
  for (const Checked &check : checks)
    key.push_back(group.index[size_t(check.axis)]);
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

llvm::Value *Access::isInside(const Group &group) {
  llvm::Value *inside = someRows;
  for (const Checked &check : checks) {
    llvm::Value *position = k.i32(group.index[size_t(check.axis)]);
    inside = k.both(inside, k.ir.CreateICmpSGT(check.limit, position));
    if (check.first)
      inside = k.both(inside, k.ir.CreateICmpSLE(check.first, position));
  }
  return inside;
}

llvm::Value *Access::address(const Group &group) {
  llvm::Value *elements = k.i64(0);
  for (size_t axis = 0; axis < strides.size(); ++axis) {
    llvm::Value *position, *step = strides[axis];
    if (const Registers *own = rows[axis]) {
      position = k.ir.CreateSExtOrTrunc((*own)[size_t(group.first)], k.ir.getInt64Ty());
      position = k.ir.CreateBinaryIntrinsic(llvm::Intrinsic::smin, position, lastRows[axis]);
      position = k.ir.CreateBinaryIntrinsic(llvm::Intrinsic::smax, position, k.i64(0));
      step = pitches[axis];
    } else {
      position = k.i64(group.index[size_t(tileAxis[axis])]);
    }
    elements = offsetBy(k.ir, elements, position, step, strided);
  }
  // Called where the element is inside. So is the thread's first position (no larger along any axis) unless it may lie before the
  // buffer.
  bool first = std::none_of(checks.begin(), checks.end(), [](const Checked &check) { return check.first; });
  llvm::Type *element = k.memoryType(dtype);
  return first ? k.ir.CreateInBoundsGEP(element, pointer, elements) : k.ir.CreateGEP(element, pointer, elements);
}

llvm::Type *Access::type() const {
  llvm::Type *element = k.memoryType(dtype);
  return vecSize == 1 ? element : llvm::FixedVectorType::get(element, unsigned(vecSize));
}

} // namespace

/// The words in which assembly text moves an access: four bytes each, or one of two bytes or one.
struct Words {
  unsigned count;
  llvm::Type *type; ///< In registers; a byte is in 16 bits there.
  std::string kind; ///< "v4.b32"
  const char *constraint;
  explicit Words(IRBuilder &ir, int64_t bytes)
      : count(unsigned(std::max<int64_t>(bytes / 4, 1))), type(bytes >= 4 ? ir.getInt32Ty() : ir.getInt16Ty()),
        kind(bytes >= 4   ? "b32"
             : bytes == 2 ? "b16"
                          : "b8"),
        constraint(bytes >= 4 ? "r" : "h") {
    if (count > 1)
      kind = "v" + std::to_string(count) + "." + kind;
  }
  std::string operands(size_t first) const {
    std::string text = numberedOperands(first, count);
    return count > 1 ? "{" + text + "}" : text;
  }
};

/// LLVM drops cache hints, so this is assembly text: memory that is read once does not stay in L1, and L2 fetches a longer piece.
static llvm::Value *streamedLoad(KernelLowering &k, Access &access, const Group &group, bool invariant) {
  IRBuilder &ir = k.ir;
  int64_t bytes = access.vec() * dtypeBytes(access.dtype);
  Words words(ir, bytes);
  AsmCall call(ir);
  for (unsigned i = 0; i < words.count; ++i)
    call.addResult(words.type, words.constraint);
  std::string address = "[$" + std::to_string(call.nextNumber()) + "]";
  call.addOperand(access.address(group), "l");
  Registers loaded = call.emit("ld.global." + std::string(invariant ? "nc." : "") + "L1::no_allocate.L2::256B." + words.kind + " " +
                                   words.operands(0) + ", " + address + ";",
                               /*convergent=*/false);
  if (bytes == 1)
    return ir.CreateTrunc(loaded[0], access.type());
  llvm::Value *all = loaded[0];
  if (words.count > 1) {
    all = llvm::PoisonValue::get(llvm::FixedVectorType::get(words.type, words.count));
    for (unsigned i = 0; i < words.count; ++i)
      all = ir.CreateInsertElement(all, loaded[i], uint64_t(i));
  }
  return ir.CreateBitCast(all, access.type());
}

/// The same for a store: the lines are the first that leave the caches.
static void streamedStore(KernelLowering &k, Access &access, const Group &group, llvm::Value *data) {
  IRBuilder &ir = k.ir;
  int64_t bytes = access.vec() * dtypeBytes(access.dtype);
  Words words(ir, bytes);
  AsmCall call(ir);
  call.addOperand(access.address(group), "l");
  if (bytes == 1) {
    call.addOperand(ir.CreateZExt(data, words.type), words.constraint);
  } else {
    llvm::Type *form = words.count > 1 ? llvm::cast<llvm::Type>(llvm::FixedVectorType::get(words.type, words.count)) : words.type;
    llvm::Value *all = ir.CreateBitCast(data, form);
    for (unsigned i = 0; i < words.count; ++i)
      call.addOperand(words.count > 1 ? ir.CreateExtractElement(all, uint64_t(i)) : all, words.constraint);
  }
  call.emit("st.global.cs." + words.kind + " [$0], " + words.operands(1) + ";", /*convergent=*/false);
}

void lowerLoad(KernelLowering &k, Operation &op) {
  Type type = op.result()->type();
  Value *buffer = op.operand(0);
  Access access(k, op, type, buffer, 1);
  IRBuilder &ir = k.ir;
  const Attribute *fillAttr = op.attr("fill");
  llvm::Constant *fill = fillAttr ? k.number(*fillAttr, type.dtype()) : llvm::Constant::getNullValue(k.elementType(type.dtype()));
  bool invariant = !k.isStored(buffer), stream = op.attr("cache") != nullptr;
  llvm::MDNode *empty = llvm::MDNode::get(ir.getContext(), {});

  Registers result(size_t(type.layout()->numRegs()));
  for (const auto &bundle : access.bundles()) {
    llvm::Value *inside = access.isInside(*bundle.front());
    llvm::BasicBlock *outside = ir.GetInsertBlock(), *then = nullptr;
    std::vector<size_t> loaded;
    k.guarded(inside, [&] {
      for (const Group *group : bundle) {
        llvm::Value *load = nullptr;
        if (stream) {
          load = streamedLoad(k, access, *group, invariant);
        } else {
          llvm::LoadInst *plain = ir.CreateAlignedLoad(access.type(), access.address(*group), access.align());
          if (invariant)
            plain->setMetadata(llvm::LLVMContext::MD_invariant_load, empty);
          load = plain;
        }
        for (int64_t i = 0; i < access.vec(); ++i) {
          llvm::Value *element = access.vec() == 1 ? load : ir.CreateExtractElement(load, uint64_t(i));
          loaded.push_back(size_t(group->first + i));
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

static void storeGroup(KernelLowering &k, Access &access, const Group &group, const Registers &value, bool stream) {
  llvm::Value *data = llvm::PoisonValue::get(access.type());
  for (int64_t i = 0; i < access.vec(); ++i) {
    llvm::Value *element = k.toMemory(value[size_t(group.first + i)], access.dtype);
    data = access.vec() == 1 ? element : k.ir.CreateInsertElement(data, element, uint64_t(i));
  }
  if (stream)
    streamedStore(k, access, group, data);
  else
    k.ir.CreateAlignedStore(data, access.address(group), access.align());
}

void lowerStore(KernelLowering &k, Operation &op) {
  Type type = op.operand(0)->type();
  Access access(k, op, type, op.operand(1), 2);
  const Registers &value = k.get(op.operand(0));
  llvm::Value *isHolder = k.isHolder(*type.layout());
  std::map<std::vector<int64_t>, int64_t> firstHolders; // Registers that replicate an element come later and are skipped.
  for (const Group &group : access.groups())
    firstHolders.try_emplace(group.index, group.first);
  for (const auto &bundle : access.bundles())
    k.guarded(k.both(access.isInside(*bundle.front()), isHolder), [&] {
      for (const Group *group : bundle)
        if (firstHolders.at(group->index) == group->first)
          storeGroup(k, access, *group, value, op.attr("cache") != nullptr);
    });
}

} // namespace minic::codegen
