; A method is named by its selector, `sel:with:`; a category extends its class, so it lends the class's name. Declarations
; in an `@interface` are not functions.
(class_implementation . "@implementation" . (identifier) @name) @container
(method_definition (identifier) @selector) @function
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
