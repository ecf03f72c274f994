// The hooks that the op rows name in `.verify`, and what the files that write them share. Private to lib/IR.
//
// A hook runs only on an operation whose columns hold: its level, its numbers of operands, results and regions, its attributes'
// kinds and its element types are right, every type at hand is well formed (tile extents are positive integers ...), every operand
// is defined before it, and every region ends with a `yield`.
#pragma once

#include "minic/IR/IR.h"

#include <optional>
#include <string>
#include <vector>

namespace minic {

class VerifyReporter;

void verifyConstant(Operation &op, VerifyReporter &reporter);
void verifyBroadcast(Operation &op, VerifyReporter &reporter);
void verifyReshape(Operation &op, VerifyReporter &reporter);
void verifyTranspose(Operation &op, VerifyReporter &reporter);
void verifyReduce(Operation &op, VerifyReporter &reporter);
void verifyMatmul(Operation &op, VerifyReporter &reporter);
void verifyFusion(Operation &op, VerifyReporter &reporter);
void verifyYield(Operation &op, VerifyReporter &reporter);
void verifyReturn(Operation &op, VerifyReporter &reporter);

void verifyProgramId(Operation &op, VerifyReporter &reporter);
void verifyDim(Operation &op, VerifyReporter &reporter);
void verifyFor(Operation &op, VerifyReporter &reporter);
void verifyLoad(Operation &op, VerifyReporter &reporter);
void verifyStore(Operation &op, VerifyReporter &reporter);
void verifyRanges(Operation &op, VerifyReporter &reporter);
void verifySlice(Operation &op, VerifyReporter &reporter);
void verifyPad(Operation &op, VerifyReporter &reporter);
void verifyConcat(Operation &op, VerifyReporter &reporter);
void verifyGather(Operation &op, VerifyReporter &reporter);
void verifyIota(Operation &op, VerifyReporter &reporter);
void verifySize(Operation &op, VerifyReporter &reporter);
void verifyAlongAxis(Operation &op, VerifyReporter &reporter);
void verifyNorm(Operation &op, VerifyReporter &reporter);
void verifyMean(Operation &op, VerifyReporter &reporter);
void verifyArgmax(Operation &op, VerifyReporter &reporter);
void verifyInBounds(Operation &op, VerifyReporter &reporter);
void verifyDot(Operation &op, VerifyReporter &reporter);
void verifyLaunchWait(Operation &op, VerifyReporter &reporter);
void verifyClusterMeeting(Operation &op, VerifyReporter &reporter);
void verifyClusterStore(Operation &op, VerifyReporter &reporter);
void verifyConvertLayout(Operation &op, VerifyReporter &reporter);
void verifySpread(Operation &op, VerifyReporter &reporter);
void verifyAllocShared(Operation &op, VerifyReporter &reporter);
void verifyRole(Operation &op, VerifyReporter &reporter);
void verifyStage(Operation &op, VerifyReporter &reporter);
void verifySharedView(Operation &op, VerifyReporter &reporter);
void verifyStMatrix(Operation &op, VerifyReporter &reporter);
void verifyBarrier(Operation &op, VerifyReporter &reporter);
void verifyMbarrierInit(Operation &op, VerifyReporter &reporter);
void verifyMbarrierUse(Operation &op, VerifyReporter &reporter);
void verifyTma(Operation &op, VerifyReporter &reporter);
void verifyCpAsync(Operation &op, VerifyReporter &reporter);
void verifyCpAsyncWait(Operation &op, VerifyReporter &reporter);
void verifyLdMatrix(Operation &op, VerifyReporter &reporter);
void verifyMma(Operation &op, VerifyReporter &reporter);
void verifyUndefined(Operation &op, VerifyReporter &reporter);
void verifyWgmma(Operation &op, VerifyReporter &reporter);
void verifyWgmmaWait(Operation &op, VerifyReporter &reporter);
void verifyExtractTile(Operation &op, VerifyReporter &reporter);
void verifyTensorMap(Operation &op, VerifyReporter &reporter);
void verifySharedAccess(Operation &op, VerifyReporter &reporter);
void verifyPlanMemory(Operation &op, VerifyReporter &reporter);
void verifyLaunch(Operation &op, VerifyReporter &reporter);
void verifyLibraryCall(Operation &op, VerifyReporter &reporter);
void verifyCustom(Operation &op, VerifyReporter &reporter);
void verifyPtx(Operation &op, VerifyReporter &reporter);

/// What one operation's result types follow from; null where the operation is not well formed. They check all that they rely on,
/// since builders ask before anything is verified.
Type transposedType(const Operation &op);
Type matmulType(const Operation &op);
Type reducedType(const Operation &op, unsigned i);
Type slicedType(const Operation &op);
Type paddedType(const Operation &op);
Type concatenatedType(const Operation &op);
Type gatheredType(const Operation &op);
Type meanType(const Operation &op);
Type argmaxType(const Operation &op);

/// What a declaration of a custom op says: sizes that its operands have, and a kernel that takes what the op takes.
void checkCustom(const Function &custom, VerifyReporter &reporter);
/// A custom op uses only those that are declared before it, so none contains itself; and what is used stays of a bounded size.
void checkCustomNesting(Module &module, VerifyReporter &reporter);

/// The number that an index is; `otherwise` if it is not a constant.
int64_t constantOf(const Value &value, int64_t otherwise);
/// Checks that accumulators in flight which a region carries come back in their own places.
bool checkInflightSlots(Operation &loop, VerifyReporter &reporter);

/// What a math body is: a kernel of the machine level that returns scalars.
bool isMathBody(const Function &function);
/// Whether scalars of any type may stand here: in a combiner or a math body.
bool inScalarCode(const Operation &op);
/// Whether a number is a value of `dtype`; floats may round, but not to infinity.
bool numberFits(const Attribute &number, DType dtype);

/// A type that cannot be.
struct TypeFault {
  ErrorCode code;
  std::string message;
};
/// What is wrong with a type by itself in a function of this level: sizes, strides, layout. `threads` is the kernel's, or 0 if
/// unknown.
std::optional<TypeFault> findTypeFault(Type type, Level level, int64_t threads);
/// The level, the numbers of operands, results and regions, and the attributes, by the op's row.
bool checkColumns(Operation &op, VerifyReporter &reporter);
/// The element types and the type rule, by the op's row; the types must be well formed.
bool checkTypes(Operation &op, VerifyReporter &reporter);
/// Whether an attribute is of the kind; what it should have been, for messages.
bool attributeFits(const Attribute &value, const AttrSpec &spec);
std::string attrKindText(const AttrSpec &spec);

/// `text` in backquotes.
std::string inQuotes(std::string_view text);
/// "kernel @k".
std::string functionText(const Function &function);
/// "graph and fused".
std::string levelsText(LevelSet levels);
/// The op's name in quotes, for messages.
std::string opText(const Operation &op);
/// `%x: tensor<2xf32>`, or `operand 1: ...` for a value without a name.
std::string operandText(const Operation &op, unsigned i);
/// `%x`, or `operand 1`.
std::string operandName(const Operation &op, unsigned i);
/// "a, b and c"; "a, b, c" without a conjunction.
std::string wordList(const std::vector<std::string> &words, std::string_view conjunction = "and");
/// "3 values", "1 value".
std::string countText(size_t n, std::string_view noun);
std::string intsText(const std::vector<int64_t> &values);

/// Reports TypeMismatch unless result `i` has the type `expected`.
bool expectResult(Operation &op, unsigned i, Type expected, VerifyReporter &reporter);
/// Reports OperandType unless operand `i` is of the kind.
bool expectOperand(Operation &op, unsigned i, TypeKind kind, VerifyReporter &reporter);
bool expectIndex(Operation &op, unsigned i, VerifyReporter &reporter);
/// `precision` is for products of f32.
bool expectPrecision(Operation &op, VerifyReporter &reporter);
bool expectMbarrier(Operation &op, unsigned i, VerifyReporter &reporter);
bool expectCondition(Operation &op, unsigned i, VerifyReporter &reporter);
/// Reports BadAxis unless the integers of attribute `name` are distinct axes of a type of this rank (`what` in the message), in
/// strictly ascending order if asked.
bool expectAxes(Operation &op, std::string_view name, int rank, const std::string &what, bool ascending, VerifyReporter &reporter);
/// The same for a part of the attribute's integers.
bool expectAxes(Operation &op, std::string_view name, const std::vector<int64_t> &axes, int rank, const std::string &what,
                bool ascending, VerifyReporter &reporter);

} // namespace minic
