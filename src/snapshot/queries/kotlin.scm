; Extension receivers are dropped; an unnamed companion object lends no name, its functions are called on the class.
; Property accessors, `init` blocks and lambdas are not functions.
(class_declaration name: (identifier) @name) @container
(object_declaration name: (identifier) @name) @container
(companion_object name: (identifier) @name) @container
(function_declaration name: (identifier) @name) @function
(secondary_constructor "constructor" @name) @function
