; A container type takes the name of its constant; a function that returns one encloses it. Functions without a body
; are defined elsewhere, tests aren't functions.
(variable_declaration . (identifier) @name [(struct_declaration) (union_declaration) (enum_declaration) (opaque_declaration)]) @container
(function_declaration name: (identifier) @name body: (_)) @function
