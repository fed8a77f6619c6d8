; A function takes the name that it is assigned to; the tables around a field enclose it.
(function_declaration name: (_) @name) @function
(assignment_statement
  (variable_list . name: [(identifier) (dot_index_expression)] @name)
  (expression_list . value: (function_definition))) @function
(assignment_statement
  (variable_list . name: (bracket_index_expression table: (_) @receiver field: (string content: (_) @name)))
  (expression_list . value: (function_definition))) @function
(assignment_statement
  (variable_list . name: [(identifier) (dot_index_expression)] @name)
  (expression_list . value: (table_constructor))) @container
(field name: (identifier) @name value: (function_definition)) @function
(field name: (string content: (_) @name) value: (function_definition)) @function
(field name: (identifier) @name value: (table_constructor)) @container
(field name: (string content: (_) @name) value: (table_constructor)) @container
