; Long and short forms. A method added to another module's function (`Base.show`) keeps the function's own name, a
; method of a callable value (`(p::Poly)(x)`) takes the type's; type parameters and modules are left out. An inner
; constructor is `Point.Point`, a macro goes by its name without `@`; anonymous functions in variables don't count.
(struct_definition (type_head [
  (identifier) @name
  (parametrized_type_expression . (identifier) @name)
  (binary_expression . [(identifier) @name (parametrized_type_expression . (identifier) @name)])
])) @container

(function_definition (signature (identifier) @name)) @function
(function_definition (signature [
  (call_expression . [
    (identifier) @name
    (operator) @name
    (field_expression [(identifier) @name (quote_expression [(operator) @name (parenthesized_expression (operator) @name)])] .)
    (parametrized_type_expression . [(identifier) @name (field_expression (identifier) @name .)])
    (parenthesized_expression [(operator) @name (typed_expression (_) [(identifier) @name (parametrized_type_expression . (identifier) @name)] .)])
  ])
  (_ . (call_expression . [
    (identifier) @name
    (operator) @name
    (field_expression [(identifier) @name (quote_expression [(operator) @name (parenthesized_expression (operator) @name)])] .)
    (parametrized_type_expression . [(identifier) @name (field_expression (identifier) @name .)])
    (parenthesized_expression [(operator) @name (typed_expression (_) [(identifier) @name (parametrized_type_expression . (identifier) @name)] .)])
  ]))
  (_ . (_ . (call_expression . [
    (identifier) @name
    (operator) @name
    (field_expression [(identifier) @name (quote_expression [(operator) @name (parenthesized_expression (operator) @name)])] .)
    (parametrized_type_expression . [(identifier) @name (field_expression (identifier) @name .)])
    (parenthesized_expression [(operator) @name (typed_expression (_) [(identifier) @name (parametrized_type_expression . (identifier) @name)] .)])
  ])))
])) @function

(assignment . [
  (call_expression . [
    (identifier) @name
    (operator) @name
    (field_expression [(identifier) @name (quote_expression [(operator) @name (parenthesized_expression (operator) @name)])] .)
    (parametrized_type_expression . [(identifier) @name (field_expression (identifier) @name .)])
    (parenthesized_expression [(operator) @name (typed_expression (_) [(identifier) @name (parametrized_type_expression . (identifier) @name)] .)])
  ])
  (typed_expression . (call_expression . [
    (identifier) @name
    (operator) @name
    (field_expression [(identifier) @name (quote_expression [(operator) @name (parenthesized_expression (operator) @name)])] .)
    (parametrized_type_expression . [(identifier) @name (field_expression (identifier) @name .)])
  ]))
  (where_expression . [
    (call_expression . [
      (identifier) @name
      (operator) @name
      (field_expression [(identifier) @name (quote_expression [(operator) @name (parenthesized_expression (operator) @name)])] .)
      (parametrized_type_expression . [(identifier) @name (field_expression (identifier) @name .)])
      (parenthesized_expression [(operator) @name (typed_expression (_) [(identifier) @name (parametrized_type_expression . (identifier) @name)] .)])
    ])
    (_ . (call_expression . [
      (identifier) @name
      (operator) @name
      (field_expression [(identifier) @name (quote_expression [(operator) @name (parenthesized_expression (operator) @name)])] .)
      (parametrized_type_expression . [(identifier) @name (field_expression (identifier) @name .)])
    ]))
  ])
  (binary_expression (_) . (operator) @name . (_))
] . (operator) @equals (#eq? @equals "=")) @function

(macro_definition (signature (call_expression . [(identifier) (operator)] @name))) @function
