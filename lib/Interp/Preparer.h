// The maker of a PreparedKernel; its functions are in Prepare.cpp, PrepareContract.cpp and PrepareMachine.cpp.
#pragma once

#include "Prepare.h"

#include <unordered_map>

namespace minic::interp {

/// A tile of one CTA with more elements than this is a mistake of the text, not a kernel.
inline constexpr int64_t maxTileElements = int64_t(1) << 24;
/// The same for shared memory; no device has a quarter of it.
inline constexpr int64_t maxSharedElements = int64_t(1) << 20;

class Preparer {
public:
  Preparer(const Function &function, const DimBindings &dims, std::span<const int64_t> strides)
      : function(function), dims(dims), strides(strides) {}

  Expected<std::unique_ptr<PreparedKernel>> run();

private:
  // Every helper returns false after a failure, which is then in `error`.
  bool fail(ErrorCode code, std::string message, const Operation *op = nullptr);
  bool evaluate(const DimExpr &expr, int64_t &value, const Operation *op = nullptr);
  bool evaluate(std::span<const DimExpr> exprs, std::vector<int64_t> &values, const Operation *op = nullptr);
  bool newSlot(const Value *value, int &slot);
  bool addParam(const Value &param);
  bool prepareBlock(const Block &block, Body &body);
  bool prepareOp(const Operation &op, Instr &instr);
  bool prepareConstant(const Operation &op, Instr &instr);
  bool prepareAccess(const Operation &op, Instr &instr, bool store);
  bool prepareMachine(const Operation &op, Instr &instr);
  bool prepareAllocShared(const Operation &op, Instr &instr);
  bool prepareTma(const Operation &op, Instr &instr);
  bool prepareCpAsync(const Operation &op, Instr &instr);
  bool prepareMma(const Operation &op, Instr &instr);
  bool prepareSpread(const Operation &op, Instr &instr);
  bool prepareMbarrier(const Operation &op, Instr &instr);
  bool prepareRole(const Operation &op, Instr &instr);
  bool prepareWgmma(const Operation &op, Instr &instr);
  DotInfo productOf(int64_t rows, int64_t columns, int64_t k) const;
  SharedInfo sharedInfo(Type memory, Type tile);
  const CellMap *cellsOf(Type memory);
  bool prepareReduce(const Operation &op, Instr &instr);
  bool prepareDot(const Operation &op, Instr &instr);
  bool stepsOf(const Operation &op, ReduceInfo::Axis &axis);
  void operandOfDot(const Value &value, std::span<const int64_t> axes, std::span<const int64_t> contracted, DotOperand &operand,
                    std::vector<int64_t> &packedStrides);
  const ThreadMap *threadsOf(Type type);
  const ThreadMap *threadsOf(const Layout &layout, const std::vector<int64_t> &extents);
  void findLastUses(Body &body, std::span<const int> yields);
  void number(Body &body);

  const Function &function;
  const DimBindings &dims;
  std::span<const int64_t> strides; ///< Of the strided buffers that are still to come.
  std::unique_ptr<PreparedKernel> kernel;
  std::unordered_map<const Value *, int> slots;
  std::optional<Diagnostic> error;
};

} // namespace minic::interp
