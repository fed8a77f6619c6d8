; Namespaces lend no name.
(abstract_class_declaration name: (_) @name) @container
(public_field_definition
  name: (_) @name
  value: [(arrow_function) (function_expression) (generator_function)]) @function
