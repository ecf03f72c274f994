"""Declarations that use the one before: as many (18), so many times each (2)."""
import sys

count, uses = (int(word) for word in sys.argv[1:]) if len(sys.argv) > 1 else (18, 2)
for i in range(count):
    before = f"custom @f{i - 1}(%x)" if i else "neg %x"
    print(f"custom @f{i}(%x: tensor<Nxf32>) -> (y: tensor<Nxf32>) {{")
    for use in range(uses):
        print(f"  %y{use} = {before} : tensor<Nxf32>")
    print(f"  return %y{uses - 1}\n}}")
