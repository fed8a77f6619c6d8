; Types, objects and named givens enclose; packages and package objects are namespaces. An extension's methods go by
; their own name. A trait's abstract methods count; `def this` is named as its class.
(class_definition name: (_) @name) @container
(object_definition name: (_) @name) @container
(trait_definition name: (_) @name) @container
(enum_definition name: (_) @name) @container
(given_definition name: (_) @name) @container
(function_definition name: (_) @name (#not-eq? @name "this")) @function
((function_definition name: (_) @name) @function (#eq? @name "this") (#set! name.container ""))
(function_declaration name: (_) @name) @function
