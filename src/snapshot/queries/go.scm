; Function literals are not functions of their own: they are part of the declaration around them.
(function_declaration name: (identifier) @name) @function
(method_declaration
  receiver: (parameter_list (parameter_declaration type: [
    (type_identifier) @receiver
    (generic_type type: (type_identifier) @receiver)
    (pointer_type (type_identifier) @receiver)
    (pointer_type (generic_type type: (type_identifier) @receiver))
    (parenthesized_type (type_identifier) @receiver)
    (parenthesized_type (pointer_type (type_identifier) @receiver))]))
  name: (field_identifier) @name) @function
