; Members with a body, and those that a class declares without one (abstract methods, constructors that only set
; fields). `Foo.named` is the constructor of that name, plain `Foo` and `Foo.new` are `Foo.Foo`; an extension without a name goes by
; the type that it extends. External functions are defined elsewhere, closures in variables aren't functions.
(class_declaration name: (identifier) @name) @container
(mixin_declaration name: (identifier) @name) @container
(enum_declaration name: (identifier) @name) @container
(extension_declaration name: (identifier) @name) @container
(extension_declaration !name class: (type . (type_identifier) @name)) @container
(extension_type_declaration name: (extension_type_name (identifier) @name)) @container
(function_declaration signature: (_ name: (identifier) @name)) @function
(getter_declaration signature: (_ name: (identifier) @name)) @function
(setter_declaration signature: (_ name: (identifier) @name)) @function
(local_function_declaration (function_signature name: (identifier) @name)) @function
(member_declaration [
  (declaration [
    (function_signature name: (identifier) @name)
    (getter_signature name: (identifier) @name)
    (setter_signature name: (identifier) @name)
    (operator_signature operator: _ @name)
    (constructor_signature name: (identifier) @name . parameters: (_))
    (constant_constructor_signature name: (identifier) @name . parameters: (_))
    (factory_constructor_signature name: (identifier) @name . parameters: (_))
    (redirecting_factory_constructor_signature name: (identifier) @name . parameters: (_))
  ])
  (method_declaration (method_signature [
    (function_signature name: (identifier) @name)
    (getter_signature name: (identifier) @name)
    (setter_signature name: (identifier) @name)
    (operator_signature operator: _ @name)
    (constructor_signature name: (identifier) @name . parameters: (_))
    (factory_constructor_signature name: (identifier) @name . parameters: (_))
  ]))
]) @function
