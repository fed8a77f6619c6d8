; Namespaces lend no name. Properties, indexers, events and their accessors are not functions, nor are delegates and lambdas.
(class_declaration name: (identifier) @name) @container
(struct_declaration name: (identifier) @name) @container
(interface_declaration name: (identifier) @name) @container
(record_declaration name: (identifier) @name) @container
(enum_declaration name: (identifier) @name) @container
(method_declaration name: (identifier) @name) @function
(constructor_declaration name: (identifier) @name) @function
(destructor_declaration "~" @name name: (identifier) @name) @function
(operator_declaration "operator" @name operator: _ @name) @function
(conversion_operator_declaration "operator" @name type: (_) @name) @function
(local_function_statement name: (identifier) @name) @function
