#include "Lowering.h"

#include "minic/Artifact/Artifact.h"
#include "minic/IR/Roles.h"

#include <llvm/IR/IntrinsicsNVPTX.h>
#include <llvm/IR/Module.h>

namespace minic::codegen {

int64_t threadsOf(const Function &kernel) {
  const Attribute *threads = kernel.attr("threads");
  return threads && threads->asInt() ? *threads->asInt() / clusterCtas(kernel) : 0;
}

/// Buffers that change while the kernel runs: what it stores to, and before a launch_wait any.
static std::unordered_set<const Value *> storedBuffers(Function &kernel) {
  std::unordered_set<const Value *> stored;
  walk(kernel.body(), [&](Operation &op) {
    if (op.is(OpKind::Store))
      stored.insert(op.operand(1));
    if (op.is(OpKind::LaunchWait))
      stored.insert(kernel.params().begin(), kernel.params().end());
  });
  return stored;
}

llvm::Function *declareKernel(Function &kernel, llvm::Module &module) {
  llvm::LLVMContext &context = module.getContext();
  // A tensor map lies among the parameters, where TMA reads it (CUDA Programming Guide, "Tensor Memory Access").
  llvm::Type *map = llvm::ArrayType::get(llvm::Type::getInt8Ty(context), uint64_t(tensorMapBytes));
  std::vector<llvm::Type *> types;
  for (Value *param : kernel.params())
    types.push_back(llvm::PointerType::get(context, param->type().isTensorMap() ? 0 : 1));
  std::vector<std::string> dims = kernel.dimNames();
  types.resize(types.size() + dims.size(), llvm::Type::getInt32Ty(context));
  for (Value *param : kernel.params())
    types.resize(types.size() + (param->type().isStrided() ? size_t(param->type().rank()) : 0), llvm::Type::getInt64Ty(context));
  auto *type = llvm::FunctionType::get(llvm::Type::getVoidTy(context), types, false);
  auto *function = llvm::Function::Create(type, llvm::GlobalValue::ExternalLinkage, kernel.name, module);
  function->setCallingConv(llvm::CallingConv::PTX_Kernel);
  function->addFnAttr(llvm::Attribute::NoUnwind);
  function->addFnAttr("nvvm.reqntid", std::to_string(threadsOf(kernel)) + ",1,1");
  if (int64_t ctas = clusterCtas(kernel); ctas > 1)
    function->addFnAttr("nvvm.cluster_dim", std::to_string(ctas) + ",1,1");
  // Where roles have registers of their own, ptxas wants to know how many threads start with, and ignores setmaxnreg otherwise.
  bool movesRegisters = false;
  walk(kernel.body(), [&](Operation &op) { movesRegisters |= op.is(OpKind::Role) && op.attr("regs"); });
  if (const Attribute *resident = kernel.attr("resident"))
    function->addFnAttr("nvvm.minctasm", resident->str());
  else if (movesRegisters)
    function->addFnAttr("nvvm.minctasm", "1");
  walk(kernel.body(), [&](Operation &op) {
    if (op.info().effects & Convergent)
      function->addFnAttr(llvm::Attribute::Convergent);
  });

  std::unordered_set<const Value *> stored = storedBuffers(kernel);
  unsigned position = 0;
  for (Value *param : kernel.params()) {
    llvm::Argument *argument = function->getArg(position);
    argument->setName(param->name());
    llvm::AttrBuilder attributes(context);
    if (param->type().isTensorMap()) {
      attributes.addByValAttr(map).addAlignmentAttr(64).addAttribute("nvvm.grid_constant");
      function->addParamAttrs(position++, attributes);
      continue;
    }
    // Buffers of one launch may be the same memory only where nothing writes it, so that none aliases what another one modifies.
    uint64_t alignment = param->type().isStrided() ? uint64_t(dtypeBytes(param->type().dtype())) : 16;
    attributes.addAttribute(llvm::Attribute::NoAlias).addAlignmentAttr(llvm::Align(alignment));
    if (!stored.count(param))
      attributes.addAttribute(llvm::Attribute::ReadOnly);
    function->addParamAttrs(position++, attributes);
  }
  for (const std::string &name : dims) {
    function->getArg(position)->setName(name);
    llvm::AttrBuilder attributes(context);
    attributes.addAttribute(llvm::Attribute::NoUndef);
    attributes.addRangeAttr(llvm::ConstantRange(llvm::APInt(32, 0), llvm::APInt::getSignedMinValue(32)));
    function->addParamAttrs(position++, attributes);
  }
  return function;
}

KernelLowering::KernelLowering(Function &kernel, llvm::Function &function, const TargetInfo &target, LineInfo &lines,
                               Diagnostics &errors)
    : ir(function.getContext()), target(target), kernel(kernel), setup(function.getContext()), function(function), lines(lines),
      errors(errors), threads(threadsOf(kernel)), cluster(clusterCtas(kernel)), stored(storedBuffers(kernel)) {}

void KernelLowering::run() {
  // The setup code goes before the entry block's terminator, whenever it is found to be needed.
  llvm::BasicBlock *entry = newBlock("entry"), *body = newBlock("body");
  ir.SetInsertPoint(entry);
  ir.SetCurrentDebugLocation(lines.at({}, function)); // What depends on the thread and on sizes alone is of no op.
  setup.SetInsertPoint(ir.CreateBr(body));            // Takes the branch's location.
  ir.SetInsertPoint(body);
  unsigned position = 0;
  for (Value *param : kernel.params())
    values[param] = {function.getArg(position++)};
  for (const std::string &name : kernel.dimNames())
    dimParameters[name] = function.getArg(position++);
  for (Value *param : kernel.params())
    for (int axis = 0; param->type().isStrided() && axis < param->type().rank(); ++axis)
      strideParameters[param].push_back(function.getArg(position++));
  lowerRegion(kernel.body());
  ir.CreateRetVoid();
}

//===- Values -===//

const Registers &KernelLowering::get(Value *value) const {
  auto it = values.find(value);
  assert(it != values.end() && "a value that is used before it is lowered");
  return it->second;
}

void KernelLowering::set(Value *value, Registers registers) {
  assert((!value->type().layout() || int64_t(registers.size()) == value->type().layout()->numRegs()) &&
         "a tile needs all its registers");
  bool isNamed = !value->name().empty() && value->name()[0] > '9'; // LLVM would quote a number.
  for (llvm::Value *part : registers)
    if (isNamed && llvm::isa<llvm::Instruction>(part) && !part->hasName())
      part->setName(value->name());
  values[value] = std::move(registers);
}

void KernelLowering::fail(const Operation &op, std::string message) {
  errors.push_back({.code = ErrorCode::BackendFailed,
                    .message = "kernel @" + kernel.name + ": '" + std::string(op.info().name) + "' " + std::move(message),
                    .loc = op.loc()});
  for (Value *result : op.results()) {
    size_t count = result->type().layout() ? size_t(result->type().layout()->numRegs()) : 1;
    bool isMemory = result->type().isSmem() || result->type().isMbarrier();
    llvm::Type *type = isMemory ? ir.getPtrTy(3) : elementType(result->type().dtype());
    values[result] = Registers(count, llvm::Constant::getNullValue(type));
  }
}

static int64_t registersOf(const Operation &op) {
  const Layout *layout = op.result()->type().layout();
  return layout ? layout->numRegs() : 1;
}

static bool sharesRun(const Operation &first, const Operation &op) {
  return registersOf(first) == registersOf(op) && !isReluConvert(first) && !isReluConvert(op);
}

/// Only says which values its registers are.
static bool emitsNothing(const Operation &op) {
  return op.is(OpKind::Constant) || op.is(OpKind::Broadcast) || op.is(OpKind::Spread);
}

static bool usesOneOf(const Operation &op, std::span<Operation *const> run) {
  return std::any_of(op.operands().begin(), op.operands().end(),
                     [&](const Value *operand) { return std::find(run.begin(), run.end(), operand->definition()) != run.end(); });
}

std::vector<Registers> KernelLowering::lowerRegion(Block &block) {
  std::vector<Operation *> run; // Element-wise ops that wait to be lowered together.
  llvm::DebugLoc outer = ir.getCurrentDebugLocation();
  auto lowerRun = [&] {
    if (!run.empty())
      lowerElementwise(*this, run);
    ir.SetCurrentDebugLocation(outer);
    run.clear();
  };
  for (Operation &op : block) {
    if (op.info().terminator)
      break;
    if (op.info().elementwise) {
      if (!run.empty() && !sharesRun(*run.front(), op))
        lowerRun();
      run.push_back(&op);
      continue;
    }
    if (!emitsNothing(op) || usesOneOf(op, run))
      lowerRun();
    lowerOperation(op);
  }
  lowerRun();
  std::vector<Registers> yielded;
  for (Value *operand : block.back()->operands())
    yielded.push_back(get(operand));
  return yielded;
}

void KernelLowering::lowerOperation(Operation &op) {
  llvm::DebugLoc outer = ir.getCurrentDebugLocation();
  setLoc(op);
  lowerKind(op);
  ir.SetCurrentDebugLocation(outer);
}

void KernelLowering::lowerKind(Operation &op) {
  switch (op.kind()) {
  case OpKind::Constant:
    return lowerConstant(*this, op);
  case OpKind::Broadcast:
  case OpKind::Spread:
    return lowerBroadcast(*this, op);
  case OpKind::Reduce:
    return lowerReduce(*this, op);
  case OpKind::ProgramId:
    return lowerProgramId(op);
  case OpKind::Dim:
    return set(op.result(), {size(*op.attr("expr")->asDim())});
  case OpKind::For:
    return lowerFor(op);
  case OpKind::Load:
    return lowerLoad(*this, op);
  case OpKind::Store:
    return lowerStore(*this, op);
  case OpKind::InBounds:
    return lowerInBounds(*this, op);
  case OpKind::Iota:
    return lowerIota(*this, op);
  case OpKind::Dot:
    return lowerDot(*this, op);
  case OpKind::AllocShared:
    return lowerAllocShared(*this, op);
  case OpKind::SharedStore:
    return lowerSharedStore(*this, op);
  case OpKind::SharedLoad:
    return lowerSharedLoad(*this, op);
  case OpKind::BarrierOp:
    return lowerBarrier(*this, op);
  case OpKind::Role:
    return lowerRole(op);
  case OpKind::Stage:
    return lowerStage(*this, op);
  case OpKind::SharedView:
    return lowerSharedView(*this, op);
  case OpKind::MbarrierInit:
    return lowerMbarrierInit(*this, op);
  case OpKind::MbarrierExpect:
    return lowerMbarrierExpect(*this, op);
  case OpKind::MbarrierArrive:
    return lowerMbarrierArrive(*this, op);
  case OpKind::MbarrierWait:
    return lowerMbarrierWait(*this, op);
  case OpKind::TmaPrefetch:
  case OpKind::TmaLoad:
  case OpKind::TmaStore:
  case OpKind::TmaStoreWait:
    return lowerTma(*this, op);
  case OpKind::LaunchWait:
    return lowerLaunchWait(*this, op);
  case OpKind::ClusterArrive:
  case OpKind::ClusterWait:
    return lowerClusterMeeting(*this, op);
  case OpKind::ClusterStore:
    return lowerClusterStore(*this, op);
  case OpKind::FenceAsync:
    return lowerFenceAsync(*this, op);
  case OpKind::StMatrix:
    return lowerStMatrix(*this, op);
  case OpKind::CpAsync:
    return lowerCpAsync(*this, op);
  case OpKind::CpAsyncCommit:
  case OpKind::CpAsyncWait:
    return lowerCpAsyncGroup(*this, op);
  case OpKind::LdMatrix:
    return lowerLdMatrix(*this, op);
  case OpKind::Mma:
    return lowerMma(*this, op);
  case OpKind::Undefined:
    return lowerUndefined(*this, op);
  case OpKind::Wgmma:
    return lowerWgmma(*this, op);
  case OpKind::WgmmaWait:
    return lowerWgmmaWait(*this, op);
  case OpKind::ExtractTile:
    return lowerExtractTile(*this, op);
  default:
    return fail(op, "has no code for GPUs");
  }
}

void KernelLowering::lowerProgramId(Operation &op) {
  // A grid has less than 2^31 programs, so each of its axes fits 32 bits and the divisions need no more.
  llvm::Value *linear = ir.CreateIntrinsic(
      cluster > 1 ? llvm::Intrinsic::nvvm_read_ptx_sreg_clusterid_x : llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_x, {});
  std::vector<DimExpr> grid = op.dimsAttr("grid");
  for (unsigned axis = op.numResults(); axis-- > 0;) {
    llvm::Value *id = linear;
    if (axis > 0) {
      llvm::Value *extent = ir.CreateTrunc(size(grid[axis]), ir.getInt32Ty());
      id = ir.CreateURem(linear, extent);
      linear = ir.CreateUDiv(linear, extent);
    }
    set(op.result(axis), {ir.CreateZExt(id, ir.getInt64Ty(), "", /*IsNonNeg=*/true)});
  }
}

/// Splits what a loop carries among the values that hold it: region arguments, or results.
void KernelLowering::setCarried(const Operation &loop, std::span<Value *const> values, const Registers &registers) {
  auto from = registers.begin();
  for (size_t i = 0; i < values.size(); ++i) {
    const Value &init = *loop.operand(unsigned(i + 3));
    size_t count = get(loop.operand(unsigned(i + 3))).size(), together = carriedTogether(init);
    Registers own;
    while (own.size() < count)
      if (together > 1) {
        Registers word = unpackWord(ir, *from++, elementType(init.type().dtype()));
        own.insert(own.end(), word.begin(), word.end());
      } else {
        own.push_back(*from++);
      }
    set(values[i], std::move(own));
  }
}

size_t KernelLowering::carriedTogether(const Value &value) const {
  Type type = value.type();
  if (!type.isTile() || isStorageOnly(type.dtype()) || type.dtype() == DType::I1 || dtypeBytes(type.dtype()) > 2)
    return 1;
  int64_t word = 4 / dtypeBytes(type.dtype());
  return type.layout()->numRegs() % word == 0 ? size_t(word) : 1;
}

void KernelLowering::addCarried(const Value &value, const Registers &registers, Registers &carried) {
  size_t together = carriedTogether(value);
  for (size_t r = 0; r < registers.size(); r += together)
    carried.push_back(together > 1 ? packWord(ir, std::span(registers).subspan(r, together)) : registers[r]);
}

Registers KernelLowering::lowerTrip(Operation &loop, llvm::Value *index, const Registers &carried) {
  Block &region = loop.region();
  set(region.argument(0), {index});
  setCarried(loop, region.arguments().subspan(1), carried);
  Registers next;
  std::vector<Registers> yielded = lowerRegion(region);
  for (size_t i = 0; i < yielded.size(); ++i)
    addCarried(*loop.operand(unsigned(i + 3)), yielded[i], next);
  return next;
}

void KernelLowering::lowerFor(Operation &op) {
  Registers inits;
  for (unsigned i = 3; i < op.numOperands(); ++i)
    addCarried(*op.operand(i), get(op.operand(i)), inits);
  auto trip = [&](llvm::Value *index, const Registers &carried) { return lowerTrip(op, index, carried); };
  Registers last = op.attr("unroll") ? unrolled(op, std::move(inits))
                                     : loop(scalar(op.operand(0)), scalar(op.operand(1)), scalar(op.operand(2)), inits, trip);
  setCarried(op, op.results(), last);
}

/// The trips of a loop with constant bounds, one after the other; gives what the last one carries.
Registers KernelLowering::unrolled(Operation &loop, Registers carried) {
  auto bound = [&](unsigned i) { return *loop.operand(i)->definition()->attr("value")->asInt(); };
  // What stays in registers has few parts; text that asks for more is slow to compile and no use. Counted over all loops, since
  // they nest.
  constexpr int64_t maxTrips = 4096;
  for (int64_t at = bound(0); at < bound(1);) {
    if (++unrolledTrips > maxTrips) {
      fail(loop, "and the other loops with `unroll` of the kernel have more than " + std::to_string(maxTrips) + " trips");
      break;
    }
    carried = lowerTrip(loop, i64(at), carried);
    if (__builtin_add_overflow(at, bound(2), &at))
      break;
  }
  return carried;
}

void KernelLowering::lowerRole(Operation &op) {
  // The same for all lanes of a warp, and said so: what is computed from it can stay in uniform registers.
  llvm::Value *own = setup.CreateIntrinsic(llvm::Intrinsic::nvvm_shfl_sync_idx_i32, {i32(-1), warp(), i32(0), i32(31)});
  int64_t first = firstWarp(op), count = roleWarps(op) * roleInstances(op);
  llvm::Value *relative = first ? ir.CreateSub(own, i32(first)) : own;
  guarded(ir.CreateICmpULT(relative, i32(count)), [&] {
    // What depends on the thread's place in the role is computed at its start; what was computed before stays in sight.
    llvm::BasicBlock *body = newBlock("role");
    auto outer = std::tuple(setup.saveIP(), warpId, threadOffsets, holders, sizes, firstThread);
    setup.SetInsertPoint(ir.CreateBr(body));
    ir.SetInsertPoint(body);
    threadOffsets.clear();
    holders.clear();
    firstThread = nullptr;
    role = &op;
    bool single = roleInstances(op) == 1;
    instance = single ? llvm::cast<llvm::Value>(i32(0)) : setup.CreateUDiv(relative, i32(roleWarps(op)));
    warpId = single ? relative : setup.CreateURem(relative, i32(roleWarps(op)));
    barrierId = setup.CreateAdd(instance, i32(1 + firstInstance(op)));
    if (op.attr("regs")) {
      bool fewer = op.intAttr("regs") < registersAtStart(threads);
      setup.CreateIntrinsic(fewer ? llvm::Intrinsic::nvvm_setmaxnreg_dec_sync_aligned_u32
                                  : llvm::Intrinsic::nvvm_setmaxnreg_inc_sync_aligned_u32,
                            {i32(op.intAttr("regs"))});
    }
    llvm::Value *active = isOneThread(op) ? isFirstThread() : nullptr;
    oneThread = isOneThread(op);
    if (!op.region().arguments().empty())
      set(op.region().argument(0), {setup.CreateZExt(instance, ir.getInt64Ty(), "", /*IsNonNeg=*/true)});
    guarded(active, [&] { lowerRegion(op.region()); });
    role = nullptr;
    oneThread = false;
    instance = barrierId = nullptr;
    llvm::IRBuilderBase::InsertPoint point;
    std::tie(point, warpId, threadOffsets, holders, sizes, firstThread) = std::move(outer);
    setup.restoreIP(point);
  });
}

int64_t KernelLowering::warpsHere() const { return role ? roleWarps(*role) : threads / 32 * cluster; }

llvm::Value *KernelLowering::isFirstThread() {
  if (oneThread)
    return nullptr;
  if (!firstThread) {
    llvm::Value *isFirstLane = setup.CreateICmpEQ(lane(), i32(0));
    firstThread = setup.CreateAnd(isFirstLane, setup.CreateICmpEQ(cluster > 1 ? warpOfCta : warp(), i32(0)));
  }
  return firstThread;
}

//===- Control flow -===//

llvm::BasicBlock *KernelLowering::newBlock(const char *name) {
  return llvm::BasicBlock::Create(function.getContext(), name, &function);
}

Registers KernelLowering::loop(llvm::Value *lo, llvm::Value *hi, llvm::Value *step, const Registers &inits,
                               const std::function<Registers(llvm::Value *, const Registers &)> &body) {
  llvm::BasicBlock *before = ir.GetInsertBlock(), *top = newBlock("loop"), *after = newBlock("after");
  ir.CreateCondBr(ir.CreateICmpSLT(lo, hi), top, after);
  ir.SetInsertPoint(top);
  llvm::PHINode *index = ir.CreatePHI(lo->getType(), 2);
  index->addIncoming(lo, before);
  Registers carried;
  for (llvm::Value *init : inits) {
    llvm::PHINode *phi = ir.CreatePHI(init->getType(), 2);
    phi->addIncoming(init, before);
    carried.push_back(phi);
  }
  Registers next = body(index, carried);
  assert(next.size() == inits.size() && "a loop yields what it carries");
  llvm::BasicBlock *latch = ir.GetInsertBlock();
  llvm::Value *nextIndex = ir.CreateNSWAdd(index, step);
  index->addIncoming(nextIndex, latch);
  for (size_t i = 0; i < next.size(); ++i)
    llvm::cast<llvm::PHINode>(carried[i])->addIncoming(next[i], latch);
  llvm::BranchInst *back = ir.CreateCondBr(ir.CreateICmpSLT(nextIndex, hi), top, after);
  // How far a loop is unrolled is the schedule's choice, neither LLVM's nor (through the pragma that this prints) ptxas's.
  llvm::LLVMContext &context = function.getContext();
  auto *unroll = llvm::MDNode::get(context, llvm::MDString::get(context, "llvm.loop.unroll.disable"));
  llvm::MDNode *id = llvm::MDNode::getDistinct(context, {nullptr, unroll});
  id->replaceOperandWith(0, id);
  back->setMetadata(llvm::LLVMContext::MD_loop, id);

  ir.SetInsertPoint(after);
  Registers results;
  for (size_t i = 0; i < inits.size(); ++i) {
    llvm::PHINode *phi = ir.CreatePHI(inits[i]->getType(), 2);
    phi->addIncoming(inits[i], before);
    phi->addIncoming(next[i], latch);
    results.push_back(phi);
  }
  return results;
}

void KernelLowering::guarded(llvm::Value *condition, const std::function<void()> &body) {
  if (!condition)
    return body();
  llvm::BasicBlock *then = newBlock("then"), *join = newBlock("join");
  ir.CreateCondBr(condition, then, join);
  ir.SetInsertPoint(then);
  body();
  ir.CreateBr(join);
  ir.SetInsertPoint(join);
}

//===- Sizes and threads -===//

static bool isConstant(llvm::Value *value, uint64_t number) {
  auto *constant = llvm::dyn_cast<llvm::ConstantInt>(value);
  return constant && constant->equalsInt(number);
}

llvm::Value *mulIndex(IRBuilder &ir, llvm::Value *x, llvm::Value *y) {
  if (isConstant(x, 1) || isConstant(y, 0))
    return y;
  if (isConstant(y, 1) || isConstant(x, 0))
    return x;
  return ir.CreateMul(x, y, "", /*HasNUW=*/true, /*HasNSW=*/true);
}

llvm::Value *addIndex(IRBuilder &ir, llvm::Value *x, llvm::Value *y) {
  if (isConstant(x, 0))
    return y;
  if (isConstant(y, 0))
    return x;
  return ir.CreateAdd(x, y, "", /*HasNUW=*/true, /*HasNSW=*/true);
}

llvm::Value *KernelLowering::size(const DimExpr &expr) {
  if (auto value = expr.constant())
    return i64(*value);
  auto it = sizes.find(expr);
  if (it != sizes.end())
    return it->second;
  // The launch evaluates the same expressions with an overflow check, so the products here do not overflow.
  llvm::Value *product = nullptr;
  for (const DimExpr::Factor &factor : expr.getFactors()) {
    llvm::Value *value;
    if (factor.ceilDivOf) {
      llvm::Value *divisor = size(factor.ceilDivOf->second);
      llvm::Value *dividend = size(factor.ceilDivOf->first);
      value = setup.CreateUDiv(addIndex(setup, dividend, setup.CreateSub(divisor, i64(1))), divisor);
    } else if (factor.sumOf) {
      value = i64(0);
      for (const DimExpr &term : *factor.sumOf)
        value = setup.CreateNSWAdd(value, size(term));
    } else {
      value = setup.CreateZExt(dimParameters.at(factor.name), setup.getInt64Ty(), factor.name, /*IsNonNeg=*/true);
    }
    product = product ? mulIndex(setup, product, value) : value;
  }
  if (expr.getCoefficient() < 0) // A term of a sum.
    return sizes[expr] = setup.CreateNSWMul(product, i64(expr.getCoefficient()));
  return sizes[expr] = mulIndex(setup, product, i64(expr.getCoefficient()));
}

llvm::Value *KernelLowering::threadPosition(bool warp) {
  if (!laneId) {
    llvm::CallInst *thread = setup.CreateIntrinsic(llvm::Intrinsic::nvvm_read_ptx_sreg_tid_x, {});
    thread->addRangeRetAttr(llvm::ConstantRange(llvm::APInt(32, 0), llvm::APInt(32, uint64_t(threads))));
    laneId = setup.CreateAnd(thread, uint64_t(31), "lane");
    warpId = warpOfCta = threads == 32 ? llvm::cast<llvm::Value>(i32(0)) : setup.CreateLShr(thread, uint64_t(5), "warp");
    if (cluster > 1) {
      llvm::CallInst *rank = setup.CreateIntrinsic(llvm::Intrinsic::nvvm_read_ptx_sreg_cluster_ctarank, {});
      rank->addRangeRetAttr(llvm::ConstantRange(llvm::APInt(32, 0), llvm::APInt(32, uint64_t(cluster))));
      warpId = addIndex(setup, mulIndex(setup, rank, i32(threads / 32)), warpOfCta);
    }
  }
  return warp ? warpId : laneId;
}

/// Calls `fn(mode, digit)` for the modes along `axis` (-1: copies) of `count` positions.
template <typename Fn>
static void forEachDigit(IRBuilder &ir, const std::vector<Mode> &modes, llvm::Value *position, int64_t count, int axis, Fn fn) {
  int64_t below = 1;
  for (const Mode &mode : modes) {
    if (mode.extent > 1 && mode.axis == axis) {
      llvm::Value *digit = below == 1 ? position : ir.CreateUDiv(position, ir.getInt32(uint32_t(below)));
      if (below * mode.extent < count)
        digit = ir.CreateURem(digit, ir.getInt32(uint32_t(mode.extent)));
      fn(mode, digit);
    }
    below *= mode.extent;
  }
  assert(below == count && "a layout for another number of threads");
}

llvm::Value *KernelLowering::threadOffset(const Layout &layout, int axis) {
  auto [it, isNew] = threadOffsets.try_emplace({layout, axis});
  if (!isNew)
    return it->second;
  llvm::Value *sum = i32(0);
  auto add = [&](const Mode &mode, llvm::Value *digit) { sum = addIndex(setup, sum, mulIndex(setup, digit, i32(mode.stride))); };
  forEachDigit(setup, layout.lane, threadPosition(false), 32, axis, add);
  forEachDigit(setup, layout.warp, threadPosition(true), warpsHere(), axis, add);
  return it->second = sum;
}

llvm::Value *KernelLowering::isHolder(const Layout &layout) {
  auto [it, isNew] = holders.try_emplace(layout);
  if (!isNew)
    return it->second;
  llvm::Value *first = nullptr;
  auto add = [&](const Mode &, llvm::Value *digit) {
    llvm::Value *isZero = setup.CreateICmpEQ(digit, i32(0));
    first = first ? setup.CreateAnd(first, isZero) : isZero;
  };
  forEachDigit(setup, layout.lane, threadPosition(false), 32, -1, add);
  forEachDigit(setup, layout.warp, threadPosition(true), warpsHere(), -1, add);
  return it->second = first;
}

llvm::Value *KernelLowering::positionAt(llvm::Value *distance, const Layout &layout, int axis, int64_t step) {
  // Clamped to [0, 2^31): this part is the same for all threads; the rest is 32-bit arithmetic per thread.
  distance = ir.CreateBinaryIntrinsic(llvm::Intrinsic::smax, distance, i64(0));
  if (step > 1)
    distance = ir.CreateUDiv(ir.CreateNUWAdd(distance, i64(step - 1)), i64(step));
  distance = ir.CreateBinaryIntrinsic(llvm::Intrinsic::smin, distance, i64(INT32_MAX));
  distance = ir.CreateTrunc(distance, ir.getInt32Ty());
  llvm::Value *thread = threadOffset(layout, axis);
  return isConstant(thread, 0) ? distance : ir.CreateNSWSub(distance, thread);
}

llvm::Value *KernelLowering::limit(llvm::Value *index, const DimExpr &extent, const Layout &layout, int axis, int64_t step) {
  return positionAt(isConstant(index, 0) ? size(extent) : ir.CreateSub(size(extent), index), layout, axis, step);
}

llvm::Value *KernelLowering::first(llvm::Value *index, const Layout &layout, int axis, int64_t step) {
  return positionAt(ir.CreateNeg(index), layout, axis, step);
}

} // namespace minic::codegen
