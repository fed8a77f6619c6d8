; A binding is a function when it has parameters or a function for its body. Modules and classes enclose what they
; define; a module type, a signature and an `external` declare what is defined elsewhere. `let` belongs to the span
; where it introduces a single binding, otherwise each binding (`let rec .. and ..`) is a span of its own.
(module_definition (module_binding (module_name) @name) @container)
(class_binding (class_name) @name) @container
(let_binding pattern: [(value_name) @name (parenthesized_operator (_) @name)] (parameter)) @function
(let_binding
  pattern: [(value_name) @name (parenthesized_operator (_) @name)]
  body: [(fun_expression) (function_expression)]) @function
(value_definition
  . (attribute)?
  . (let_binding pattern: [(value_name) @name (parenthesized_operator (_) @name)] (parameter)) .) @function
(value_definition
  . (attribute)?
  . (let_binding
    pattern: [(value_name) @name (parenthesized_operator (_) @name)]
    body: [(fun_expression) (function_expression)]) .) @function
(method_definition (method_name) @name) @function
