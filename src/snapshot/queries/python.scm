(class_definition name: (identifier) @name) @container
(function_definition name: (identifier) @name) @function
