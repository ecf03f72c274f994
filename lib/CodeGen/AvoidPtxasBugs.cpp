#include "AvoidPtxasBugs.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/PatternMatch.h>

#include <algorithm>

namespace minic::codegen {
namespace {

/// `text` computes $0 of $1, both of `value`'s type. As text, since LLVM would see what it means.
llvm::Value *inText(llvm::IRBuilder<> &builder, const std::string &text, llvm::Value *value) {
  llvm::Type *type = value->getType();
  unsigned bits = type->getIntegerBitWidth();
  std::string constraint = bits == 16 ? "h" : bits == 32 ? "r" : "l";
  auto *form = llvm::InlineAsm::get(llvm::FunctionType::get(type, {type}, false), text, "=" + constraint + "," + constraint,
                                    /*hasSideEffects=*/false);
  return builder.CreateCall(form, {value});
}

/// What is narrower is computed in a wider type, where no result wraps.
bool isWhole(llvm::Type *type) { return type->isIntegerTy(16) || type->isIntegerTy(32) || type->isIntegerTy(64); }

/// ptxas takes the result of `abs` for 0 or more and drops comparisons with it, but |-2^31| is -2^31 in 32 bits. So: (x ^ s) - s,
/// where s is the sign in every bit.
void replaceAbs(llvm::IntrinsicInst &abs) {
  unsigned bits = abs.getType()->getIntegerBitWidth();
  std::string b = ".b" + std::to_string(bits), s = ".s" + std::to_string(bits);
  llvm::IRBuilder<> builder(&abs);
  abs.replaceAllUsesWith(inText(builder,
                                "{ .reg " + b + " s, t; shr" + s + " s, $1, " + std::to_string(bits - 1) + "; xor" + b +
                                    " t, $1, s; sub" + s + " $0, t, s; }",
                                abs.getArgOperand(0)));
  abs.eraseFromParent();
}

/// Of max(max(x, -y), z) ptxas makes the maximum of x, y and z, and of min likewise. So: -y is ~y + 1 there.
void replaceNegation(llvm::BinaryOperator &negation) {
  unsigned bits = negation.getType()->getIntegerBitWidth();
  std::string b = ".b" + std::to_string(bits), s = ".s" + std::to_string(bits);
  llvm::IRBuilder<> builder(&negation);
  llvm::Value *form = inText(builder, "{ .reg " + b + " t; not" + b + " t, $1; add" + s + " $0, t, 1; }", negation.getOperand(1));
  negation.replaceUsesWithIf(form, [](const llvm::Use &use) { return llvm::isa<llvm::MinMaxIntrinsic>(use.getUser()); });
}

} // namespace

void avoidPtxasBugs(llvm::Module &module) {
  std::vector<llvm::IntrinsicInst *> abs;
  std::vector<llvm::BinaryOperator *> negations;
  for (llvm::Function &function : module)
    for (llvm::Instruction &instruction : llvm::instructions(function)) {
      if (!isWhole(instruction.getType()))
        continue;
      if (auto *call = llvm::dyn_cast<llvm::IntrinsicInst>(&instruction); call && call->getIntrinsicID() == llvm::Intrinsic::abs)
        abs.push_back(call);
      if (llvm::PatternMatch::match(&instruction, llvm::PatternMatch::m_Neg(llvm::PatternMatch::m_Value())) &&
          std::ranges::any_of(instruction.users(), [](const llvm::User *user) { return llvm::isa<llvm::MinMaxIntrinsic>(user); }))
        negations.push_back(llvm::cast<llvm::BinaryOperator>(&instruction));
    }
  for (llvm::IntrinsicInst *call : abs)
    replaceAbs(*call);
  for (llvm::BinaryOperator *negation : negations)
    replaceNegation(*negation);
}

} // namespace minic::codegen
