// minic doc completion-bash, -zsh and -fish: what a shell offers behind `minic`.
#include "CommandLine.h"

namespace minic::cli {
namespace {

std::string header(std::string_view shell) {
  return "# Completion of minic's command line. Written by `minic doc completion-" + std::string(shell) + "`; do not edit.\n";
}

std::string joined(const std::vector<std::string> &words, std::string_view separator = " ") {
  std::string text;
  for (const std::string &word : words)
    text += (text.empty() ? "" : std::string(separator)) + word;
  return text;
}

std::vector<std::string> namesOf(const std::vector<CommandLine> &commands) {
  std::vector<std::string> names;
  for (const CommandLine &command : commands)
    names.push_back(command.name());
  return names;
}

/// The text with a backslash before each of `special`.
std::string escaped(std::string_view text, std::string_view special) {
  std::string out;
  for (char c : text) {
    if (special.find(c) != std::string_view::npos)
      out += '\\';
    out += c;
  }
  return out;
}

/// In single quotes of a POSIX shell, in which nothing is special.
std::string quoted(std::string_view text) {
  std::string out = "'";
  for (char c : text)
    out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

/// Help in a menu is a line: as far as its first pause.
std::string brief(const std::string &help) {
  std::string_view text = help;
  return std::string(text.substr(0, std::min(text.find("; "), text.find(" ("))));
}

} // namespace

//===- bash -===//

std::string bashCompletion(const CommandLine &program) {
  std::string below, values, replies; // Rows of the three tables.
  std::string takeFiles;
  for (const CommandLine *command : allCommands(program)) {
    std::string path = command->pathText();
    for (const CommandLine &one : command->commands)
      below += (below.empty() ? "" : " | ") + ("\"" + path + ":" + one.name() + "\"");
    std::vector<std::string> flags, words = namesOf(command->commands);
    for (const CommandLineOption &flag : command->flags)
      for (const std::string &name : flag.names) {
        flags.push_back(name);
        std::string pattern = "\"" + path + ":" + name + "\"";
        if (!flag.words.empty())
          values += "    " + pattern + ") words=\"" + joined(flag.words) + "\" ;;\n";
        else if (!flag.value.empty())
          takeFiles += (takeFiles.empty() ? "" : " | ") + pattern;
      }
    for (const CommandLineOption &operand : command->operands)
      words.insert(words.end(), operand.words.begin(), operand.words.end());
    replies += "        \"" + path + ":-\") words=\"" + joined(flags) + "\" ;;\n";
    if (!words.empty())
      replies += "        \"" + path + ":\"*) words=\"" + joined(words) + "\" ;;\n";
  }
  return header("bash") + R"(# Where it offers nothing, bash offers files.
_minic() {
  local i command= flag=${COMP_WORDS[COMP_CWORD - 1]} word=${COMP_WORDS[COMP_CWORD]} prefix= words=
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "$command:${COMP_WORDS[i]}" in
      )" +
         below + R"()
        command=${command:+$command }${COMP_WORDS[i]} ;;
    esac
  done
  # `--flag=value` is three words, or one where COMP_WORDBREAKS has no `=`.
  if [[ $word == = ]]; then
    word=
  elif [[ $flag == = ]]; then
    flag=${COMP_WORDS[COMP_CWORD - 2]}
  elif [[ $word == --*=* ]]; then
    flag=${word%%=*} prefix=${word%%=*}= word=${word#*=}
  fi
  case "$command:$flag" in
)" + values +
         "    " + takeFiles + R"() return ;;
    *)
      case "$command:${word:0:1}" in
)" + replies +
         R"(      esac
      ;;
  esac
  COMPREPLY=($(compgen -P "$prefix" -W "$words" -- "$word"))
}
complete -o bashdefault -o default -F _minic minic
)";
}

//===- zsh -===//

/// What `_arguments` is told of an option: `--emit=[help]:WORD:(graph fused)`.
static void addZshSpecs(std::vector<std::string> &specs, const CommandLineOption &option, bool isFlag) {
  std::string values = option.words.empty() ? "_files" : "(" + joined(option.words) + ")";
  if (!isFlag) {
    std::string name = option.repeats ? "*:" : option.required ? ":" : "::";
    specs.push_back(quoted(name + escaped(option.names.front(), ":\\") + ":" + values));
    return;
  }
  std::string once = option.repeats ? "*" : option.names.size() > 1 ? "(" + joined(option.names) + ")" : "";
  for (const std::string &name : option.names) {
    bool takesValue = !option.value.empty();
    std::string spec =
        once + name + (takesValue && name.starts_with("--") ? "=" : "") + "[" + escaped(brief(option.help), "[]\\:") + "]";
    specs.push_back(quoted(spec + (takesValue ? ":" + option.value + ":" + values : "")));
  }
}

std::string zshCompletion(const CommandLine &program) {
  std::string out = "#compdef minic\n" + header("zsh");
  for (const CommandLine *command : allCommands(program)) {
    std::vector<std::string> specs;
    for (const CommandLineOption &flag : command->flags)
      addZshSpecs(specs, flag, true);
    for (const CommandLineOption &operand : command->operands)
      addZshSpecs(specs, operand, false);
    std::string function = "_minic" + (command->path.empty() ? "" : "_" + command->pathText("_"));
    out += "\n" + function + "() {\n";
    if (command->commands.empty()) {
      out += "  _arguments \\\n    " + joined(specs, " \\\n    ") + "\n}\n";
      continue;
    }
    specs.push_back("'1: :->command'");
    specs.push_back("'*:: :->rest'");
    out += "  local curcontext=$curcontext state line\n  local -a commands\n  typeset -A opt_args\n  _arguments -C \\\n    " +
           joined(specs, " \\\n    ") + " && return\n  case $state in\n    command)\n      commands=(\n";
    for (const CommandLine &below : command->commands)
      out += "        " + quoted(below.name() + ":" + below.help) + "\n";
    out += "      )\n      _describe command commands ;;\n    rest)\n      (( $+functions[" + function + "_$line[1]] )) && " +
           function + "_$line[1] ;;\n  esac\n}\n";
  }
  return out + R"(
# zsh calls this file by the name of its function; who sources it has the function named to zsh.
if [[ $funcstack[1] == _minic ]]; then
  _minic "$@"
else
  compdef _minic minic
fi
)";
}

//===- fish -===//

std::string fishCompletion(const CommandLine &program) {
  auto quote = [](const std::string &text) { return "'" + escaped(text, "'\\") + "'"; };
  std::string out = header("fish");
  for (const CommandLine *command : allCommands(program)) {
    std::string condition = command->path.empty() ? "__fish_use_subcommand" : "";
    for (const std::string &word : command->path)
      condition += (condition.empty() ? "" : "; and ") + ("__fish_seen_subcommand_from " + word);
    if (!command->path.empty() && !command->commands.empty())
      condition += "; and not __fish_seen_subcommand_from " + joined(namesOf(command->commands));
    std::string begin = "complete -c minic -n " + quote(condition);
    for (const CommandLine &below : command->commands)
      out += begin + " -f -a " + below.name() + " -d " + quote(below.help) + "\n";
    for (const CommandLineOption &operand : command->operands)
      if (!operand.words.empty())
        out += begin + " -f -a " + quote(joined(operand.words)) + "\n";
    for (const CommandLineOption &flag : command->flags) {
      out += begin;
      for (const std::string &name : flag.names)
        out += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      if (!flag.value.empty())
        out += flag.words.empty() ? " -r" : " -x -a " + quote(joined(flag.words));
      out += " -d " + quote(brief(flag.help)) + "\n";
    }
  }
  return out;
}

} // namespace minic::cli
