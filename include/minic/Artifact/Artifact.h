// What a compiled graph is: kernels' code, parameters, launch rules, the plan. Plain data; no IR, no LLVM, no driver.
#pragma once

#include "minic/Support/DType.h"
#include "minic/Support/DimFact.h"
#include "minic/Support/MatmulCall.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace minic {

/// A tensor's type with sizes that may be named.
struct TensorSpec {
  std::string name; ///< Parameter or result name, without `%`; empty for temporaries.
  DType dtype = DType::F32;
  std::vector<DimExpr> shape;
  bool strided = false; ///< Lies where and as the caller has it. If not: row-major, from a multiple of 16 bytes on.
};

/// What a row-major tensor's address is a multiple of: the widest access of a thread, and what TMA asks for.
inline constexpr int64_t tensorAlignment = 16;

/// Bytes of an encoded tensor map among a kernel's parameters (CUtensorMap).
inline constexpr int64_t tensorMapBytes = 128;

/// How TMA sees a buffer: boxes of `box` elements move, their rows swizzled by `swizzle` bytes (0: not). What is encoded is a box
/// of at most the swizzle's width: a wider one moves as slabs, by a copy each.
struct TensorMapSpec {
  DType dtype = DType::BF16;
  std::vector<DimExpr> shape;
  std::vector<int64_t> box;
  int64_t swizzle = 0;
  bool tf32 = false; ///< f32 that TMA rounds to tf32 as it loads.
};

/// A parameter of a kernel: a device pointer, or a tensor map of the buffer there.
struct KernelParam {
  std::string name; ///< For messages; may be empty.
  std::optional<TensorMapSpec> map = std::nullopt;
  int stridedAxes = 0; ///< Axes of a buffer with strides of its own.
};

/// Clusters of more CTAs need not fit every device (CUDA C++ Programming Guide, "Thread Block Clusters").
inline constexpr int64_t portableClusterCtas = 8;

/// One kernel's code and what a launch must give it. Its arguments are one device pointer or 128 bytes of tensor map per entry of
/// `params`, in order, then one i32 per size in `dims`, in order, then one i64 per strided axis of the parameters, in order: the
/// stride in elements.
struct KernelCode {
  std::string name;
  std::vector<std::string> ops; ///< The graph ops it came from, for messages: "matmul at 3:10".
  std::string entry;            ///< In the code, where that was given as PTX; empty: the kernel's name.
  std::string ptx;              ///< Empty where the kernel only runs in the interpreter.
  std::string cubin;            ///< The same assembled for the artifact's target; empty if there was no ptxas.
  std::vector<KernelParam> params;
  std::vector<DimExpr> dims;      ///< Names, where minic made the code.
  int64_t threads = 0;            ///< Per CTA.
  int64_t sharedBytes = 0;        ///< Static shared memory per CTA.
  int64_t dynamicSharedBytes = 0; ///< What a launch adds.
  int64_t clusterCtas = 1;        ///< CTAs of a program: what a launch's grid counts.
  std::string overriddenBy;       ///< The file that its code was taken from, in the place of what was compiled; empty: none.
  bool waitsForLaunches = false;  ///< It waits itself for the launches before it, so it may start before they end.
};

/// A buffer of the plan. Slots [0, inputs.size()) are the inputs.
struct PlanBuffer {
  TensorSpec spec;
};

struct PlanStep {
  enum class Kind {
    Alloc,       ///< `result` gets fresh memory.
    View,        ///< `result` is the memory of `operands[0]` under another type.
    Copy,        ///< `result` gets fresh memory holding a copy of `operands[0]`.
    Constant,    ///< `result` is the artifact's constant `constant`.
    Launch,      ///< Kernel `kernel` over `grid` programs with `operands`.
    LibraryCall, ///< `matmul` of `operands`, the last of which is written, by cuBLASLt.
  };
  Kind kind;
  int result = -1;
  std::vector<int> operands;
  int kernel = -1, constant = -1;
  std::vector<DimExpr> grid; ///< Axes of the program id; the product is launched, zero is not launched.
  MatmulCall matmul;

  /// It gives a buffer rather than writing to one.
  bool definesBuffer() const { return kind != Kind::Launch && kind != Kind::LibraryCall; }
};

/// "launch".
std::string_view stepName(PlanStep::Kind kind);

/// The launches of one graph and the memory between them, for arguments as its inputs and results say.
struct Plan {
  std::string name;
  std::vector<TensorSpec> inputs;
  std::vector<TensorSpec> results;
  std::vector<DimFact> facts;      ///< What sizes must be.
  std::vector<PlanBuffer> buffers; ///< Inputs first.
  std::vector<PlanStep> steps;
  std::vector<int> resultBuffers; ///< One per result; distinct, none an input.
};

/// One graph compiled for one target.
struct Artifact {
  std::string target;   ///< "sm_90a".
  std::string numerics; ///< "exact", "default" or "fast".
  std::string passes;   ///< Those that it was compiled by: "canonicalize,fuse{max=8},...", as `--passes` takes it.
  std::vector<KernelCode> kernels;
  std::vector<std::vector<std::byte>> constants;
  /// At least one. A run takes the first that its arguments fit; what the last one takes is what the graph takes.
  std::vector<Plan> plans;
  std::string text; ///< The module that the kernels were made from, as IR text: the interpreter runs it.

  const Plan &signature() const { return plans.back(); }
};

} // namespace minic
