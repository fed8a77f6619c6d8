; Namespaces lend no name, nor do anonymous classes. A closure that is assigned takes the variable's name.
(class_declaration name: (name) @name) @container
(interface_declaration name: (name) @name) @container
(trait_declaration name: (name) @name) @container
(enum_declaration name: (name) @name) @container
(function_definition name: (name) @name) @function
(method_declaration name: (name) @name) @function
(assignment_expression
  left: [(variable_name (name) @name) (member_access_expression name: (name) @name)]
  right: [(anonymous_function) (arrow_function)]) @function
