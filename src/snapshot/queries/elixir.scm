; Modules, protocols and implementations (`defimpl Size, for: Map` is the module `Size.Map`) enclose; every clause is a
; candidate of its own. Macros, guards and delegates are called like functions and count as such; a name made by
; `unquote` is known only to the compiler.
((call target: (identifier) @keyword (arguments . (alias) @name)) @container
  (#any-of? @keyword "defmodule" "defprotocol"))
((call target: (identifier) @keyword (arguments . (dot right: (alias) @name))) @container
  (#eq? @keyword "defmodule"))
((call target: (identifier) @keyword (arguments . (alias) @name)) @container
  (#eq? @keyword "defimpl"))
((call
  target: (identifier) @keyword
  (arguments . (alias) (keywords (pair key: (keyword) @for value: (alias) @name)))) @container
  (#eq? @keyword "defimpl") (#match? @for "^for:"))
((call
  target: (identifier) @keyword
  (arguments . [
    (identifier) @name
    (call target: (identifier) @name)
    (binary_operator left: [(identifier) @name (call target: (identifier) @name)] operator: "when")
    (binary_operator left: (binary_operator operator: _ @name) operator: "when")
    (binary_operator operator: _ @name)
    (unary_operator operator: _ @name)
  ])) @function
  (#any-of? @keyword
    "def" "defp" "defdelegate" "defguard" "defguardp" "defmacro" "defmacrop" "defn" "defnp")
  (#not-any-of? @name "when" "unquote" "\\\\"))
