"""The TextMate grammar: its expressions compile, and what lines of IR show is found by the expression that is meant.

    check_grammar.py
"""

import json
import re
import subprocess
import sys


def minic(*words):
    return subprocess.run(["minic", *words], capture_output=True, text=True, check=True).stdout


grammar = json.loads(minic("doc", "grammar"))
rules = [(re.compile(rule.get("match") or rule["begin"]), rule) for rule in grammar["patterns"]]


def scopes(line):
    """[(text, scope)] of a line, as a TextMate engine reads it: leftmost match, then first rule."""
    found, at = [], 0
    while at < len(line):
        matches = [(match.start(), i, match, rule) for i, (regex, rule) in enumerate(rules) if (match := regex.search(line, at))
                   and match.end() > match.start()]
        if not matches:
            break
        _, _, match, rule = min(matches, key=lambda entry: entry[:2])
        if "captures" in rule:
            found += [(match[int(n)], scope["name"]) for n, scope in rule["captures"].items() if match[int(n)]]
        else:
            found.append((match[0], rule["name"]))
        at = match.end()
    return found


faults = []


def expect(line, text, scope):
    if (text, scope + ".minic") not in scopes(line):
        faults.append(f"{text!r} is not {scope} in {line!r}: {scopes(line)}")


ops = json.loads(minic("doc", "ops", "--json"))
for op in ops:
    for line in (f"  %r = {op['name']} %x : tensor<4xf32>", f"  {op['name']} %x", f"  {op['name']}", f"  %r, %s = {op['name']} %x"):
        expect(line, op["name"], "keyword.other.op")
    for word in op["words"]:
        expect(f"  %r = {op['name']} {word} %x, %y : f32", word, "constant.language")
line = "graph @softmax(%x: tensor<MxNxf32>) -> (y: tensor<MxNxbf16>) at fused { // max"
for text, scope in (("graph", "storage.type.function"), ("@softmax", "entity.name.function"), ("%x", "variable.other"),
                    ("tensor", "storage.type"), ("f32", "support.type"), ("bf16", "support.type"), ("at", "keyword.control"),
                    ("fused", "constant.language.level"), ("// max", "comment.line.double-slash")):
    expect(line, text, scope)
expect("  %m = reduce max %x, axes = [1], padding = unchecked : tile<1x1xf32>", "padding", "entity.other.attribute-name")
expect("  %m = reduce max %x, axes = [1], padding = unchecked : tile<1x1xf32>", "unchecked", "constant.language")
expect("  %c = constant -1.5e-3 : f32", "-1.5e-3", "constant.numeric")
expect("minic 1", "minic", "keyword.control")
print("\n".join(faults) or f"{len(ops)} ops")
sys.exit(bool(faults))
