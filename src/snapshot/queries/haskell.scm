; Top-level and instance definitions count even without parameters (`main`, point-free functions can't be told from
; values without types); local ones only with parameters. An instance names its methods by its type, as an `impl` does
; in Rust, a class its defaults by the class. The signature above a definition belongs to it, the clauses are one.
(class name: (name) @name) @container
(instance patterns: (type_patterns [
  (name) @name
  (qualified id: (name) @name)
  (parens type: (name) @name)
  (apply constructor: (name) @name)
  (parens type: (apply constructor: (name) @name))
  (parens type: (apply constructor: (qualified id: (name) @name)))
  (parens type: (apply constructor: (apply constructor: (name) @name)))
  (parens type: (apply constructor: (apply constructor: (apply constructor: (name) @name))))
] .)) @container
(function name: (variable) @name) @function
(function name: (prefix_id (_) @name)) @function
(function (infix operator: (operator) @name)) @function
(function (infix operator: (infix_id (_) @name))) @function
(declarations (bind name: (variable) @name) @function)
(declarations (bind name: (prefix_id (_) @name)) @function)
(class_declarations (bind name: (variable) @name) @function)
(class_declarations (bind name: (prefix_id (_) @name)) @function)
(instance_declarations (bind name: (variable) @name) @function)
(instance_declarations (bind name: (prefix_id (_) @name)) @function)
(ERROR (bind name: (variable) @name) @function)
((signature name: (variable) @of) @lead . [(function name: (variable) @name) (bind name: (variable) @name)] @function
  (#eq? @of @name))
((signature name: (prefix_id (_) @of)) @lead
  . [
    (function name: (prefix_id (_) @name))
    (function (infix operator: (operator) @name))
    (bind name: (prefix_id (_) @name))
  ] @function
  (#eq? @of @name))
