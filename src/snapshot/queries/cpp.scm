; Namespaces lend no name; `A::b` outside the class is `A.b`. A definition has a body: `= default`, `= delete` and
; prototypes are not functions, nor are lambdas and function-like macros.
(class_specifier name: (_) @name body: (_)) @container
(struct_specifier name: (_) @name body: (_)) @container
(union_specifier name: (_) @name body: (_)) @container
(function_definition declarator: [
  (function_declarator declarator: [
    (identifier) (field_identifier) (qualified_identifier) (destructor_name) (operator_name) (template_function)] @name)
  (pointer_declarator declarator: (function_declarator declarator: [
    (identifier) (field_identifier) (qualified_identifier) (destructor_name) (operator_name) (template_function)] @name))
  (reference_declarator (function_declarator declarator: [
    (identifier) (field_identifier) (qualified_identifier) (destructor_name) (operator_name) (template_function)] @name))
  (pointer_declarator declarator: (pointer_declarator declarator: (function_declarator declarator: [
    (identifier) (field_identifier) (qualified_identifier) (destructor_name) (operator_name) (template_function)] @name)))
  (pointer_declarator declarator: (reference_declarator (function_declarator declarator: [
    (identifier) (field_identifier) (qualified_identifier) (destructor_name) (operator_name) (template_function)] @name)))
  (operator_cast) @name
  (qualified_identifier name: (operator_cast)) @name
  (qualified_identifier name: (qualified_identifier name: (operator_cast))) @name
  ; (name)(...): the parentheses keep a macro of that name from expanding
  (function_declarator declarator: (parenthesized_declarator (identifier) @name))
  (pointer_declarator declarator: (function_declarator declarator: (parenthesized_declarator (identifier) @name)))
  ; a function that returns a pointer to a function
  (function_declarator declarator: (parenthesized_declarator (pointer_declarator
    declarator: (function_declarator declarator: [
    (identifier) (field_identifier) (qualified_identifier) (destructor_name) (operator_name) (template_function)] @name))))
  ; MACRO(name)(...)
  (function_declarator declarator: (function_declarator
    declarator: (identifier) parameters: (parameter_list . (parameter_declaration type: (type_identifier) @name))))
  (pointer_declarator declarator: (function_declarator declarator: (function_declarator
    declarator: (identifier) parameters: (parameter_list . (parameter_declaration type: (type_identifier) @name)))))
]
  [(compound_statement) (try_statement)]) @function
