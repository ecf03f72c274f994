// The op table: one row per op in `ScalarOps.def`, `GraphOps.def`, `TileOps.def` and `MachineOps.def`, and what a row can say.
#pragma once

#include "minic/Support/DType.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace minic {

class Operation;
class Context;
class Type;
class VerifyReporter;
enum class Level : uint8_t;

enum class OpKind : uint8_t {
#define MINIC_SCALAR(id, name, hostFloat, hostInt, llvmFloat, llvmInt, ...) id,
#define MINIC_MATH(id, name, ...) id,
#define MINIC_OP(id, name, ...) id,
#include "minic/IR/GraphOps.def"
#include "minic/IR/MachineOps.def"
#include "minic/IR/ScalarOps.def"
#include "minic/IR/TileOps.def"
#undef MINIC_SCALAR
#undef MINIC_MATH
#undef MINIC_OP
};

/// How operand axes relate to result axes. Fusion, loops, bytes and bounds are computed from this alone.
enum class AxisRule : uint8_t {
  None,      ///< No tensor operands.
  Parallel,  ///< Axis a of every operand is axis a of every result.
  Broadcast, ///< Operand axis a is result axis dims[a] (unless its size is 1 and the result's is not); other result axes repeat.
  Permute,   ///< Operand axis perm[a] is result axis a.
  Reduce,    ///< The operand axes in `axes` are contracted, the others are the result's, in order.
  Contract,  ///< Matmul: leading axes are batch; operand 0 gives row and k, operand 1 k and column.
  Indexed,   ///< The result's axes run in parallel and say at which indices the operands, which lie in memory, are read.
  Gathered,  ///< As Indexed for operand 0; the axes of operand 1 are the result's from `axis` on.
  Scan,      ///< As Parallel, but along `axis` each element needs the one before, so its loop runs in order.
  Opaque,    ///< No relation that a loop could use.
};

/// What an op does besides giving its results. Motion, cse and dce ask only this.
/// `Fresh`: each run gives a result of its own, so that two are never one.
enum Effect : uint8_t { Pure = 0, Reads = 1, Writes = 2, Barrier = 4, Convergent = 8, Fresh = 16 };

/// What a padded lane of the result holds, given what the operands' padded lanes hold (the pass `mask`).
enum class PaddingRule : uint8_t {
  Unknown,  ///< Nothing is known.
  Evaluate, ///< The op applied to the operands' padding, where all of it is known.
  Subtract, ///< Evaluate; and -inf - m is -inf if m > -inf is proved or m is a maximum over the same lanes.
  Multiply, ///< Evaluate; nothing about 0 * unknown, which may be NaN.
  Same,     ///< The padding of operand 0.
  Select,   ///< The chosen operand's padding where the condition's is known, else known only if both agree.
  Load,     ///< The `fill` of the access on its masked axes.
  Reduced,  ///< Along axes that are kept: the reduction of constant padding.
};

enum class TypeRule : uint8_t {
  Hook,        ///< `verify` checks everything.
  Elementwise, ///< All operands and the result have one type.
  Compare,     ///< Operands have one type; the result has their shape and i1.
  Select,      ///< (i1 of the shape, T, T) -> T.
  Convert,     ///< The result has the operand's shape and any other element type.
  Bitcast,     ///< As Convert, between element types of one size.
};

/// Where an op may stand, as bits of Level.
using LevelSet = uint8_t;
constexpr LevelSet levelBit(unsigned level) { return LevelSet(1u << level); }
inline constexpr LevelSet graphLevels = levelBit(0) | levelBit(1);                ///< graph and fused
inline constexpr LevelSet kernelLevels = levelBit(2) | levelBit(3) | levelBit(4); ///< tile, masked, machine
inline constexpr LevelSet machineLevel = levelBit(4);
inline constexpr std::string_view sm90a = "sm_90a";
inline constexpr LevelSet planLevel = levelBit(5);
inline constexpr LevelSet anyLevel = 0x3f;

enum class AttrKind : uint8_t {
  Value,    ///< Number, or nested lists of numbers, of the op's element type.
  Number,   ///< One number of the op's element type.
  Real,     ///< One number, in f64 whatever that type is.
  Int,      ///< One integer.
  Ints,     ///< A list of integers.
  Dim,      ///< A size expression.
  Dims,     ///< A list of size expressions.
  Word,     ///< A bare word, one of `AttrSpec::words` if that is not empty.
  Symbol,   ///< `@function`.
  Schedule, ///< `#rows<...>` or another schedule record.
  Numbers,  ///< A list of numbers.
  String,   ///< `"text"`.
};

struct AttrSpec {
  std::string_view name;
  AttrKind kind;
  bool required = true;
  std::string_view prose = {};
  std::vector<std::string_view> words = {};
};

/// One row of the op table.
struct OpInfo {
  OpKind kind;
  std::string_view name;
  std::string_view prose = {};
  /// Names of operands separated by commas; a last one ending in `...` takes any number.
  std::string_view operands = {};
  int numResults = 1;                ///< -1: any number.
  std::optional<AttrSpec> word = {}; ///< The attribute written right after the kind.
  std::vector<AttrSpec> attrs = {};
  int minRegions = 0, maxRegions = 0;
  LevelSet levels = 0;
  DTypeSet dtypes = {}; ///< Element types of operand 0 (of the result if there is none); empty: the hook decides.
  TypeRule typeRule = TypeRule::Hook;
  AxisRule axes = AxisRule::None;
  bool elementwise = false; ///< Scalars, tensors and tiles alike, lane by lane.
  uint8_t effects = Pure;
  PaddingRule padding = PaddingRule::Unknown;
  bool terminator = false;
  bool commutative = false;
  bool expands = false; ///< Has a body in lib/IR/Math instead of a host and an LLVM form.
  /// Checks what the columns cannot say; reports through the reporter.
  void (*verify)(Operation &, VerifyReporter &) = nullptr;
  std::string_view source = {}; ///< Where the semantics come from.
  std::string_view needs = {};  ///< The only target that has it; empty: all.
};

/// The row of an op.
const OpInfo &opInfo(OpKind kind);
/// All rows in enum order.
std::span<const OpInfo> allOps();
std::optional<OpKind> findOp(std::string_view name);

} // namespace minic
