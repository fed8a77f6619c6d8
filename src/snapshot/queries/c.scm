; A definition has a body; prototypes are not functions, nor are function-like macros.
(function_definition declarator: [
  (function_declarator declarator: (identifier) @name)
  (pointer_declarator declarator: (function_declarator declarator: (identifier) @name))
  (pointer_declarator declarator: (pointer_declarator declarator: (function_declarator declarator: (identifier) @name)))
  (pointer_declarator declarator: (pointer_declarator declarator: (pointer_declarator
    declarator: (function_declarator declarator: (identifier) @name))))
  ; (name)(...): the parentheses keep a macro of that name from expanding
  (function_declarator declarator: (parenthesized_declarator (identifier) @name))
  (pointer_declarator declarator: (function_declarator declarator: (parenthesized_declarator (identifier) @name)))
  ; a function that returns a pointer to a function
  (function_declarator declarator: (parenthesized_declarator (pointer_declarator
    declarator: (function_declarator declarator: (identifier) @name))))
  ; MACRO(name)(...)
  (function_declarator declarator: (function_declarator
    declarator: (identifier) parameters: (parameter_list . (parameter_declaration type: (type_identifier) @name))))
  (pointer_declarator declarator: (function_declarator declarator: (function_declarator
    declarator: (identifier) parameters: (parameter_list . (parameter_declaration type: (type_identifier) @name)))))
]) @function
