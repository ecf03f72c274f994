// One machine-level kernel to one LLVM function. Private to lib/CodeGen.
//
// A tile is split into its registers here: each thread holds one llvm::Value per register of the tile's layout. Everything that
// depends on the thread or on sizes alone is computed once, in the entry block.
#pragma once

#include "LineInfo.h"
#include "minic/IR/IR.h"
#include "minic/Target/TargetInfo.h"

#include <llvm/IR/IRBuilder.h>

#include <functional>
#include <map>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace minic::codegen {

/// Folds constants only: a folder that looks through operands would take a loop's phi for its first value while the loop is being
/// built.
using IRBuilder = llvm::IRBuilder<>;
/// What a value is in LLVM: one element per register of a tile; one for a scalar, a buffer or shared memory (its pointer).
using Registers = std::vector<llvm::Value *>;

class KernelLowering {
public:
  /// `function` is the declaration that `declareKernel` made.
  KernelLowering(Function &kernel, llvm::Function &function, const TargetInfo &target, LineInfo &lines, Diagnostics &errors);
  /// Fills the function's body.
  void run();

  IRBuilder ir; ///< At the end of what has been emitted.
  const TargetInfo &target;
  Function &kernel;

  /// What is emitted from now on is from this op.
  void setLoc(const Operation &op) { ir.SetCurrentDebugLocation(lines.at(op.loc(), function)); }

  //===- Values -===//
  const Registers &get(Value *value) const;
  llvm::Value *scalar(Value *value) const { return get(value)[0]; }
  void set(Value *value, Registers registers);
  /// The code generator cannot do this: a diagnostic at the op, and zeros for its results so that lowering goes on.
  void fail(const Operation &op, std::string message);
  /// Lowers the operations of a region up to its terminator and gives what that yields.
  std::vector<Registers> lowerRegion(Block &block);

  //===- Types and numbers -===//
  llvm::Type *elementType(DType type);
  /// i1 is a byte in memory.
  llvm::Type *memoryType(DType type);
  llvm::Value *fromMemory(llvm::Value *value, DType type);
  llvm::Value *toMemory(llvm::Value *value, DType type);
  /// 16-bit floats as f32, which is exact; anything else as it is.
  llvm::Value *widened(llvm::Value *value, DType type);
  llvm::Constant *number(const Attribute &attribute, DType type);
  llvm::ConstantInt *i64(int64_t value) { return ir.getInt64(uint64_t(value)); }
  llvm::ConstantInt *i32(int64_t value) { return ir.getInt32(uint32_t(value)); }

  //===- Computed once, in the entry block -===//
  /// An i64.
  llvm::Value *size(const DimExpr &expr);
  /// The strides of a strided buffer, in elements.
  const Registers &stridesOf(const Value *buffer) const { return strideParameters.at(buffer); }
  /// What the thread contributes to the index along `axis`, an i32.
  llvm::Value *threadOffset(const Layout &layout, int axis);
  /// True in one of the threads that hold the same element; null if there is only one.
  llvm::Value *isHolder(const Layout &layout);
  /// The thread's lane, and its warp in the kernel or in its instance of a role, i32s.
  llvm::Value *lane() { return threadPosition(false); }
  llvm::Value *warp() { return threadPosition(true); }
  /// True in one thread of the CTA or of the role's instance; null where only one thread is here.
  llvm::Value *isFirstThread();
  IRBuilder setup; ///< At the end of the entry block.

  /// How far along `axis` the thread's first position may lie: register positions o with o < limit are inside. An i32; computed
  /// here.
  llvm::Value *limit(llvm::Value *index, const DimExpr &size, const Layout &layout, int axis, int64_t step = 1);
  /// The first register position that is inside where `index`, of the block's first lane, may be negative.
  llvm::Value *first(llvm::Value *index, const Layout &layout, int axis, int64_t step = 1);

  /// The thread's register position of the first lane at least `distance` behind the block's first one; lanes are `step` apart.
  llvm::Value *positionAt(llvm::Value *distance, const Layout &layout, int axis, int64_t step);

  //===- Control flow -===//
  llvm::BasicBlock *newBlock(const char *name);
  /// A loop that runs at least once if `lo` < `hi`: `body` gets the index (type of `lo`) and the carried values and gives their
  /// next ones.
  Registers loop(llvm::Value *lo, llvm::Value *hi, llvm::Value *step, const Registers &inits,
                 const std::function<Registers(llvm::Value *, const Registers &)> &body);
  /// Emits `body` where `condition` holds (always if null).
  void guarded(llvm::Value *condition, const std::function<void()> &body);
  /// Conjunction; null is true.
  llvm::Value *both(llvm::Value *x, llvm::Value *y) { return !x ? y : !y ? x : ir.CreateAnd(x, y); }

  bool isStored(Value *buffer) const { return stored.count(buffer) != 0; }

  /// Where shared memory of this many bytes starts in the dynamic part.
  int64_t takeDynamic(int64_t bytes) { return std::exchange(dynamicUsed, dynamicUsed + bytes); }

  /// Mbarriers were set up that no fence has shown to TMA: the barrier that must follow does it, once for all.
  bool hasNewMbarriers = false;

  /// The role whose region is being lowered, or null; its instance in this thread and barrier, i32s.
  Operation *role = nullptr;
  llvm::Value *instance = nullptr, *barrierId = nullptr;

private:
  llvm::Value *threadPosition(bool warp);
  void lowerOperation(Operation &op);
  void lowerKind(Operation &op);
  void lowerProgramId(Operation &op);
  void lowerFor(Operation &op);
  Registers lowerTrip(Operation &loop, llvm::Value *index, const Registers &carried);
  Registers unrolled(Operation &loop, Registers carried);
  /// Registers of a value that a loop carries as one of 32 bits, so that none is taken apart on the way: two of 16 bits, four of 8.
  size_t carriedTogether(const Value &value) const;
  void addCarried(const Value &value, const Registers &registers, Registers &carried);
  void setCarried(const Operation &loop, std::span<Value *const> values, const Registers &registers);
  void lowerRole(Operation &op);
  int64_t warpsHere() const;

  llvm::Function &function;
  LineInfo &lines;
  Diagnostics &errors;
  int64_t threads, cluster; ///< Threads of a CTA, CTAs of a program.
  int64_t dynamicUsed = 0, unrolledTrips = 0;
  bool oneThread = false; ///< Where one thread of a role is active.
  llvm::Value *laneId = nullptr, *warpId = nullptr, *warpOfCta = nullptr, *firstThread = nullptr;
  std::unordered_map<const Value *, Registers> values; // Looked up only, as the caches below: their order cannot reach any output.
  std::unordered_set<const Value *> stored;
  std::map<DimExpr, llvm::Value *> sizes;
  std::map<std::string, llvm::Value *, std::less<>> dimParameters;
  std::unordered_map<const Value *, Registers> strideParameters;
  std::map<std::pair<Layout, int>, llvm::Value *> threadOffsets;
  std::map<Layout, llvm::Value *> holders;
};

/// Threads per CTA as the kernel's header says; 0 if it does not.
int64_t threadsOf(const Function &kernel);
/// Shared memory that a kernel declares, and what its launch adds: swizzled memory, which needs room and alignment.
struct SharedBytes {
  int64_t declared = 0, dynamic = 0;
};
SharedBytes sharedBytesOf(Function &kernel);
/// The declaration with its parameters and attributes.
llvm::Function *declareKernel(Function &kernel, llvm::Module &module);

// Each lowers one kind of operation at `k.ir` and sets its results.
void lowerConstant(KernelLowering &k, Operation &op);
/// Ops that follow each other, on tiles of one layout: a few registers of all of them, then the next, so that few values live at
/// once.
void lowerElementwise(KernelLowering &k, std::span<Operation *const> run);
inline constexpr size_t registersAtOnce = 4;
/// f32 to 16 bits with a relu on the way: one instruction of PTX converts a pair so, rounds, keeps NaN and gives +0.0 as the two
/// ops do (PTX ISA, cvt.rn.relu).
bool isReluConvert(const Operation &op);
void lowerBroadcast(KernelLowering &k, Operation &op);
void lowerInBounds(KernelLowering &k, Operation &op);
void lowerIota(KernelLowering &k, Operation &op);
void lowerLoad(KernelLowering &k, Operation &op);
void lowerStore(KernelLowering &k, Operation &op);
void lowerAllocShared(KernelLowering &k, Operation &op);
void lowerSharedStore(KernelLowering &k, Operation &op);
void lowerSharedLoad(KernelLowering &k, Operation &op);
void lowerBarrier(KernelLowering &k, Operation &op);
void lowerStage(KernelLowering &k, Operation &op);
void lowerSharedView(KernelLowering &k, Operation &op);
/// The mbarrier that operand `i` means at the position that follows it.
llvm::Value *mbarrierAt(KernelLowering &k, Operation &op, unsigned i, llvm::Value **lap = nullptr);
void lowerMbarrierInit(KernelLowering &k, Operation &op);
void lowerMbarrierExpect(KernelLowering &k, Operation &op);
void lowerMbarrierArrive(KernelLowering &k, Operation &op);
void lowerMbarrierWait(KernelLowering &k, Operation &op);
void lowerTma(KernelLowering &k, Operation &op);
void lowerLaunchWait(KernelLowering &k, Operation &op);
void lowerClusterMeeting(KernelLowering &k, Operation &op);
void lowerClusterStore(KernelLowering &k, Operation &op);
void lowerFenceAsync(KernelLowering &k, Operation &op);
void lowerStMatrix(KernelLowering &k, Operation &op);
void lowerUndefined(KernelLowering &k, Operation &op);
void lowerWgmma(KernelLowering &k, Operation &op);
void lowerWgmmaWait(KernelLowering &k, Operation &op);
void lowerCpAsync(KernelLowering &k, Operation &op);
void lowerCpAsyncGroup(KernelLowering &k, Operation &op);
void lowerLdMatrix(KernelLowering &k, Operation &op);
void lowerMma(KernelLowering &k, Operation &op);
/// Elements that fill a register of 32 bits, in an i32, and the way back.
llvm::Value *packWord(IRBuilder &ir, std::span<llvm::Value *const> elements);
llvm::Value *packPair(IRBuilder &ir, llvm::Value *low, llvm::Value *high);
Registers unpackWord(IRBuilder &ir, llvm::Value *word, llvm::Type *type);
void lowerExtractTile(KernelLowering &k, Operation &op);
void lowerReduce(KernelLowering &k, Operation &op);
void lowerDot(KernelLowering &k, Operation &op);

/// Products and sums of positions and sizes, which are not negative and do not overflow: every one is at most a buffer's size, or
/// past its end by less than a tile. Factors of 1 and terms of 0 leave no code.
llvm::Value *mulIndex(IRBuilder &ir, llvm::Value *x, llvm::Value *y);
llvm::Value *addIndex(IRBuilder &ir, llvm::Value *x, llvm::Value *y);
/// An index that no rule shows to be 0 or more. Of what passes write, only differences are.
bool mayBeNegative(const Value &index);

/// The i32 stage that a ring position means, of `stages`; `lap` is set to how often the ring went round before, if asked. Positions
/// are below 2^31.
llvm::Value *ringSlot(KernelLowering &k, llvm::Value *position, int64_t stages, llvm::Value **lap = nullptr);

/// A primitive scalar op by its row's LLVM form; null if the row has none for this class of types.
llvm::Value *emitPrimitive(IRBuilder &ir, OpKind kind, std::span<llvm::Value *const> operands, bool isFloat);

} // namespace minic::codegen
