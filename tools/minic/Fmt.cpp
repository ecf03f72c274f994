// minic fmt: files in canonical form, comments and columns kept.
#include "Common.h"

#include "minic/IR/Format.h"
#include "minic/IR/Parser.h"
#include "minic/Support/File.h"

#include <CLI/CLI.hpp>

namespace minic::cli {
namespace {

struct Flags {
  std::vector<std::string> files;
  bool check = false, inPlace = false;
};

/// Text that does not parse is not touched: nobody knows where its lines begin.
Expected<std::string> formatted(const SourceBuffer &source) {
  Context context;
  auto module = parseModule(context, source);
  if (!module)
    return module.takeErrors();
  return formatText(source.text());
}

int fmt(const Flags &flags) {
  Messages messages;
  if (flags.check && flags.inPlace)
    return messages.fail({badFlag("--check and -i are given", "--check changes no file")});
  int code = Fine;
  auto fail = [&](const Diagnostics &errors, const SourceBuffer *source = nullptr) {
    code = std::max(code, messages.fail(errors, source));
  };
  for (const std::string &file : flags.files) {
    if (flags.inPlace && file == "-")
      return messages.fail({badFlag("-i has no file to write to", "name files, or leave -i away")});
    auto source = readSource(file);
    if (!source) {
      fail(source.errors());
      continue;
    }
    auto text = formatted(*source);
    if (!text) {
      fail(text.errors(), &*source);
      continue;
    }
    std::error_code error; // Of finding what a link names; writing then says what is wrong.
    bool same = *text == source->text();
    if (flags.check && !same)
      code = std::max<int>(code, BadData);
    Expected<void> written = flags.inPlace
                                 ? (same ? Expected<void>() : replaceFile(std::filesystem::weakly_canonical(file, error), *text))
                                 : writeOutput({}, !flags.check ? *text
                                                   : same       ? ""
                                                                : source->name() + "\n");
    if (!written)
      fail(written.errors());
  }
  return code;
}

} // namespace

void addFmt(CLI::App &app, Action &chosen) {
  auto flags = std::make_shared<Flags>();
  CLI::App *command =
      app.add_subcommand("fmt", "Print files with spaces and lines in canonical form; comments and aligned columns stay");
  command->add_option("files", flags->files, "modules; - reads standard input")->required();
  command->add_flag("-i", flags->inPlace, "write each file back instead of printing it");
  command->add_flag("--check", flags->check,
                    "name the files that are not in this form, and change nothing (exit code 1 if there are some)");
  command->callback([flags, &chosen] { chosen = [flags] { return fmt(*flags); }; });
}

} // namespace minic::cli
