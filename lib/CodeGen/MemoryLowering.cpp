// Global memory: load and store.
#include "AsmCall.h"
#include "SharedMemory.h"

#include "minic/IR/Roles.h"
#include "minic/IR/SharedLayout.h"

#include <llvm/IR/IntrinsicsNVPTX.h>

#include <algorithm>

namespace minic::codegen {

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

namespace {

/// Registers that move together: `first` .. `first + vec - 1`.
struct Group {
  int64_t first;
  std::vector<int64_t> index; ///< What register `first` adds to the thread's position along each tile axis.
};

/// base + number * pitch, which wraps as a signed number nowhere, and as an unsigned one not unless a part is `negative`.
llvm::Value *offsetBy(IRBuilder &ir, llvm::Value *base, llvm::Value *number, llvm::Value *pitch, bool negative) {
  if (!negative)
    return addIndex(ir, base, mulIndex(ir, number, pitch));
  return ir.CreateNSWAdd(base, ir.CreateNSWMul(number, pitch));
}

/// The least and the greatest that an index can be, of what `align` gives it: number - x rem number.
std::pair<int64_t, int64_t> rangeOf(const Value &index) {
  const Operation *op = index.definition();
  auto constant = [](const Value &value) {
    const Operation *definition = value.definition();
    return definition && definition->is(OpKind::Constant) ? definition->attr("value")->asInt() : nullptr;
  };
  if (!op || !op->is(OpKind::Sub))
    return {INT64_MIN, INT64_MAX};
  const Operation *rest = op->operand(1)->definition();
  const int64_t *from = constant(*op->operand(0)),
                *divisor = rest && rest->is(OpKind::RemU) ? constant(*rest->operand(1)) : nullptr;
  constexpr int64_t limit = 1 << 20;
  if (!from || !divisor || std::abs(*from) > limit || *divisor < 1 || *divisor > limit || mayBeNegative(*rest->operand(0)))
    return {INT64_MIN, INT64_MAX};
  return {*from - *divisor + 1, *from};
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
  llvm::Value *isInside(const Group &group) { return isInside(group, 0, vecSize - 1); }
  /// Where vectors may reach over an edge: how the group lies in all threads, and the same for one of its elements.
  enum class Place { Inside, Outside, Edge };
  Place placeOf(const Group &group) const;
  llvm::Value *isInside(const Group &group, int64_t element) { return isInside(group, element, element); }
  /// The same along all axes but that of the vectors.
  llvm::Value *isInsideAcross(const Group &group) { return isInside(group, 0, -1); }
  bool hasEdges() const { return edges; }
  llvm::Value *address(const Group &group);
  llvm::Value *address(const Group &group, int64_t element);
  int64_t vec() const { return vecSize; }
  llvm::Type *type() const;
  llvm::Align align() const { return llvm::Align(uint64_t(vecSize * dtypeBytes(dtype))); }
  llvm::Align alignOfElement() const { return llvm::Align(uint64_t(dtypeBytes(dtype))); }
  DType dtype;

private:
  std::vector<int64_t> maskKey(const Group &group) const;
  /// Elements `from` to `to` of the group; of none, along the other axes.
  llvm::Value *isInside(const Group &group, int64_t from, int64_t to);

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
  bool strided; ///< Strides may be negative.
  bool maySkip; ///< Addresses of what lies outside are computed as well.
  bool edges;   ///< Vectors may reach over an edge, or it is known which groups can lie at one.
  std::pair<int64_t, int64_t> starts = {INT64_MIN, INT64_MAX}; ///< What the index along the vectors may be.
  int64_t size = INT64_MAX, span = 0; ///< Of the buffer along them, if known; how far the last thread is from the first.
  llvm::Value *pointer;               ///< To the thread's element at register position 0.
  std::vector<Group> groupList;
  int64_t vecSize;
};

Access::Access(KernelLowering &k, Operation &op, Type tile, Value *buffer, unsigned firstIndex)
    : dtype(tile.dtype()), k(k), strided(buffer->type().isStrided()), maySkip(op.is(OpKind::CpAsync)), edges(op.attr("edges")) {
  const std::vector<DimExpr> &shape = buffer->type().shape();
  const Layout &layout = *tile.layout();
  size_t rank = shape.size();
  if (op.attr("dims"))
    for (int64_t axis : op.intsAttr("dims"))
      tileAxis.push_back(int(axis));
  else
    for (size_t axis = 0; axis < rank; ++axis) // The last ones, of a cp_async; else all.
      tileAxis.push_back(int(axis) - int(rank) + tile.rank());

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
    const Value *one = op.operand(firstIndex + unsigned(axis));
    if (tileAxis[axis] < 0 && !one->type().isTile()) { // All lanes have this index.
      program =
          offsetBy(ir, program, k.scalar(op.operand(firstIndex + unsigned(axis))), pitches[axis], strided || mayBeNegative(*one));
      continue;
    }
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

  if (!checks.empty() && rank > 0 && tileAxis.back() >= 0 && checks.back().axis == tileAxis.back())
    starts = rangeOf(*op.operand(firstIndex + unsigned(rank) - 1));
  edges |= starts.first != INT64_MIN;
  if (edges) {
    size = shape.back().constant().value_or(INT64_MAX);
    for (const auto *modes : {&layout.lane, &layout.warp})
      for (const Mode &mode : *modes)
        if (mode.axis == tileAxis.back())
          span += (mode.extent - 1) * mode.stride;
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

llvm::Value *Access::isInside(const Group &group, int64_t from, int64_t to) {
  llvm::Value *inside = someRows;
  for (const Checked &check : checks) {
    int64_t position = group.index[size_t(check.axis)];
    bool alongVector = edges && check.axis == tileAxis.back();
    if (alongVector && to < from)
      continue;
    inside = k.both(inside, k.ir.CreateICmpSGT(check.limit, k.i32(position + (alongVector ? to : 0))));
    if (check.first)
      inside = k.both(inside, k.ir.CreateICmpSLE(check.first, k.i32(position + (alongVector ? from : 0))));
  }
  return inside;
}

Access::Place Access::placeOf(const Group &group) const {
  int64_t first = group.index[size_t(tileAxis.back())], last = first + span + vecSize - 1;
  if (!edges || starts.first == INT64_MIN || size == INT64_MAX)
    return Place::Edge;
  if (starts.first + first >= size || starts.second + last < 0)
    return Place::Outside;
  return starts.first + first >= 0 && starts.second + last < size ? Place::Inside : Place::Edge;
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
      if (tileAxis[axis] < 0)
        continue;
      position = k.i64(group.index[size_t(tileAxis[axis])]);
    }
    elements = offsetBy(k.ir, elements, position, step, strided);
  }
  // Called where the element is inside, but for copies that may take none of it. So is the thread's first position (no larger along
  // any axis) unless it may lie before the buffer.
  bool first = !maySkip && std::none_of(checks.begin(), checks.end(), [](const Checked &check) { return check.first; });
  llvm::Type *element = k.memoryType(dtype);
  return first ? k.ir.CreateInBoundsGEP(element, pointer, elements) : k.ir.CreateGEP(element, pointer, elements);
}

llvm::Value *Access::address(const Group &group, int64_t element) {
  return k.ir.CreateConstGEP1_64(k.memoryType(dtype), address(group), uint64_t(element));
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

/// `load` where `condition` holds, `otherwise` elsewhere.
static llvm::Value *loadedOr(KernelLowering &k, llvm::Value *condition, llvm::Value *otherwise,
                             const std::function<llvm::Value *()> &load) {
  llvm::BasicBlock *outside = k.ir.GetInsertBlock(), *then = nullptr;
  llvm::Value *loaded = nullptr;
  k.guarded(condition, [&] {
    loaded = load();
    then = k.ir.GetInsertBlock();
  });
  if (!condition)
    return loaded;
  llvm::PHINode *phi = k.ir.CreatePHI(otherwise->getType(), 2);
  phi->addIncoming(loaded, then);
  phi->addIncoming(otherwise, outside);
  return phi;
}

/// A whole vector where all of it is inside, else those of its elements that are.
static void loadOverEdges(KernelLowering &k, Access &access, const Group &group, DType dtype, bool invariant, llvm::Constant *fill,
                          Registers &result) {
  IRBuilder &ir = k.ir;
  Access::Place place = access.placeOf(group);
  auto load = [&](llvm::Type *type, llvm::Value *address, llvm::Align align) {
    llvm::LoadInst *loaded = ir.CreateAlignedLoad(type, address, align);
    if (invariant)
      loaded->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(ir.getContext(), {}));
    return loaded;
  };
  llvm::Value *all = nullptr, *vector = nullptr;
  if (place != Access::Place::Outside) {
    all = place == Access::Place::Inside ? access.isInsideAcross(group) : access.isInside(group);
    vector = loadedOr(k, all, llvm::PoisonValue::get(access.type()),
                      [&] { return load(access.type(), access.address(group), access.align()); });
  }
  for (int64_t i = 0; i < access.vec(); ++i) {
    llvm::Value *&element = result[size_t(group.first + i)];
    if (!vector) {
      element = fill;
      continue;
    }
    element = k.fromMemory(access.vec() == 1 ? vector : ir.CreateExtractElement(vector, uint64_t(i)), dtype);
    if (!all)
      continue;
    if (access.vec() == 1 || place == Access::Place::Inside) {
      element = ir.CreateSelect(all, element, fill);
      continue;
    }
    llvm::Value *alone = k.both(ir.CreateNot(all), access.isInside(group, i));
    llvm::Value *own = loadedOr(k, alone, fill, [&] {
      return k.fromMemory(load(k.memoryType(dtype), access.address(group, i), access.alignOfElement()), dtype);
    });
    element = ir.CreateSelect(all, element, own);
  }
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
    if (access.hasEdges()) {
      for (const Group *group : bundle)
        loadOverEdges(k, access, *group, type.dtype(), invariant, fill, result);
      continue;
    }
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

/// A whole vector where all of it is inside, else those of its elements that are.
static void storeOverEdges(KernelLowering &k, Access &access, const Group &group, const Registers &value) {
  Access::Place place = access.placeOf(group);
  if (place == Access::Place::Outside)
    return;
  llvm::Value *all = place == Access::Place::Inside ? access.isInsideAcross(group) : access.isInside(group);
  k.guarded(all, [&] { storeGroup(k, access, group, value, false); });
  for (int64_t i = 0; place == Access::Place::Edge && all && access.vec() > 1 && i < access.vec(); ++i)
    k.guarded(k.both(k.ir.CreateNot(all), access.isInside(group, i)), [&] {
      k.ir.CreateAlignedStore(k.toMemory(value[size_t(group.first + i)], access.dtype), access.address(group, i),
                              access.alignOfElement());
    });
}

void lowerStore(KernelLowering &k, Operation &op) {
  Type type = op.operand(0)->type();
  Access access(k, op, type, op.operand(1), 2);
  const Registers &value = k.get(op.operand(0));
  llvm::Value *isHolder = k.isHolder(*type.layout());
  std::map<std::vector<int64_t>, int64_t> firstHolders; // Registers that replicate an element come later and are skipped.
  for (const Group &group : access.groups())
    firstHolders.try_emplace(group.index, group.first);
  auto stores = [&](const Group &group) { return firstHolders.at(group.index) == group.first; };
  for (const auto &bundle : access.bundles()) {
    if (access.hasEdges()) {
      for (const Group *group : bundle)
        if (stores(*group))
          k.guarded(isHolder, [&] { storeOverEdges(k, access, *group, value); });
      continue;
    }
    k.guarded(k.both(access.isInside(*bundle.front()), isHolder), [&] {
      for (const Group *group : bundle)
        if (stores(*group))
          storeGroup(k, access, *group, value, op.attr("cache") != nullptr);
    });
  }
}

void lowerCpAsync(KernelLowering &k, Operation &op) {
  static constexpr llvm::Intrinsic::ID bySize[] = {llvm::Intrinsic::nvvm_cp_async_ca_shared_global_4_s,
                                                   llvm::Intrinsic::nvvm_cp_async_ca_shared_global_8_s,
                                                   llvm::Intrinsic::nvvm_cp_async_cg_shared_global_16_s};
  Type memory = op.operand(1)->type();
  Context &context = k.kernel.module().context();
  const Layout *layout = context.layout(cpAsyncLayout(memory, op.intAttr("vec"), threadsAround(op) / 32));
  Access access(k, op, context.tile(memory.dtype(), memory.extents(), layout), op.operand(0), 2);
  SwizzledAccess places(k, k.scalar(op.operand(1)), memory, *layout);
  int64_t bytes = access.vec() * dtypeBytes(memory.dtype());
  k.guarded(k.isHolder(*layout), [&] {
    for (const Group &group : access.groups()) {
      llvm::Value *inside = access.isInside(group);
      llvm::Value *size = inside ? k.ir.CreateSelect(inside, k.i32(bytes), k.i32(0)) : k.i32(bytes);
      k.ir.CreateIntrinsic(bySize[bytes / 8], {places.address(group.first), access.address(group), size});
    }
  });
}

} // namespace minic::codegen
