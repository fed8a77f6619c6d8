(class_declaration name: (identifier) @name) @container
(interface_declaration name: (identifier) @name) @container
(enum_declaration name: (identifier) @name) @container
(record_declaration name: (identifier) @name) @container
(annotation_type_declaration name: (identifier) @name) @container
(method_declaration name: (identifier) @name) @function
(constructor_declaration name: (identifier) @name) @function
(compact_constructor_declaration name: (identifier) @name) @function
