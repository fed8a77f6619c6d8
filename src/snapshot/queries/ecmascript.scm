; JavaScript and what TypeScript shares with it. A function that is bound to a name takes the name on the left; an
; object literal is no type and lends no name. Signatures without a body (overloads, `declare`, interfaces, abstract
; methods) are not functions.
(class_declaration name: (_) @name) @container
(class name: (_) @name) @container
(variable_declarator name: (identifier) @name value: (class !name)) @container
(assignment_expression left: (identifier) @name right: (class !name)) @container

(function_declaration name: (_) @name) @function
(generator_function_declaration name: (_) @name) @function
; A statement is taken for a method where the text around it does not parse.
((method_definition name: (_) @name) @function
  (#not-any-of? @name "if" "for" "while" "switch" "catch" "with"))

(variable_declarator
  name: (identifier) @name
  value: [(arrow_function) (function_expression) (generator_function)]) @function
(lexical_declaration . _ . (variable_declarator
  name: (identifier) @name
  value: [(arrow_function) (function_expression) (generator_function)]) .) @function
(variable_declaration . _ . (variable_declarator
  name: (identifier) @name
  value: [(arrow_function) (function_expression) (generator_function)]) .) @function

(assignment_expression
  left: [(identifier) @name (member_expression property: (_) @name)]
  right: [(arrow_function) (function_expression) (generator_function)]) @function
(augmented_assignment_expression
  left: [(identifier) @name (member_expression property: (_) @name)]
  right: [(arrow_function) (function_expression) (generator_function)]) @function
; Class.prototype.method = function
(assignment_expression
  left: (member_expression
    object: (member_expression
      object: [(identifier) @receiver (member_expression property: (_) @receiver)]
      property: (property_identifier) @prototype)
    property: (_) @name)
  right: [(arrow_function) (function_expression) (generator_function)]
  (#eq? @prototype "prototype")) @function
(pair
  key: (_) @name
  value: [(arrow_function) (function_expression) (generator_function)]) @function

; Named function expressions that nothing else names.
(arguments (function_expression name: (_) @name) @function)
(return_statement (function_expression name: (_) @name) @function)
(parenthesized_expression (function_expression name: (_) @name) @function)
(export_statement value: (function_expression name: (_) @name) @function)
(new_expression constructor: (function_expression name: (_) @name) @function)
