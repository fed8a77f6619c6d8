; `impl Type` and `impl Trait for Type` name their methods by the type, without its module, references and arguments.
; Modules are left out. A trait's required methods count like its default ones; what an `extern` block declares is
; defined elsewhere. Closures and `macro_rules!` aren't functions: neither is called by a path.
(impl_item type: [
  (type_identifier) @name
  (primitive_type) @name
  (scoped_type_identifier name: (type_identifier) @name)
  (generic_type type: (type_identifier) @name)
  (generic_type type: (scoped_type_identifier name: (type_identifier) @name))
  (reference_type type: [
    (type_identifier) @name
    (primitive_type) @name
    (scoped_type_identifier name: (type_identifier) @name)
    (generic_type type: (type_identifier) @name)
    (generic_type type: (scoped_type_identifier name: (type_identifier) @name))
    (array_type) @name
    (tuple_type) @name
    (dynamic_type trait: (type_identifier) @name)
  ])
  (dynamic_type trait: [
    (type_identifier) @name
    (scoped_type_identifier name: (type_identifier) @name)
    (generic_type type: (type_identifier) @name)
  ])
  (array_type) @name
  (tuple_type) @name
  (pointer_type) @name
  (function_type) @name
  (unit_type) @name
]) @container
(trait_item name: (type_identifier) @name) @container
(function_item name: (identifier) @name) @function
(trait_item body: (declaration_list (function_signature_item name: (identifier) @name) @function))
