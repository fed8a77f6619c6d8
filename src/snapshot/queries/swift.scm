; An extension's methods belong to the type that it extends. A protocol's requirements count; computed properties and
; closures aren't functions.
(class_declaration name: (type_identifier) @name) @container
(class_declaration name: (user_type . (type_identifier) @name . (type_arguments)? .)) @container
(class_declaration name: (user_type . (type_identifier) @receiver . (type_identifier) @name)) @container
(protocol_declaration name: (_) @name) @container
(function_declaration name: [(simple_identifier) (custom_operator) (bang) "!=" "!==" "%" "%=" "&" "*" "*=" "+" "++" "+=" "-" "--" "-=" "/" "/=" "<" "<<" "<=" "=" "==" "===" ">" ">=" ">>" "^" "|" "~"] @name) @function
(protocol_function_declaration name: [(simple_identifier) (custom_operator) (bang) "!=" "!==" "%" "%=" "&" "*" "*=" "+" "++" "+=" "-" "--" "-=" "/" "/=" "<" "<<" "<=" "=" "==" "===" ">" ">=" ">>" "^" "|" "~"] @name) @function
((init_declaration) @function (#set! name "init"))
((deinit_declaration) @function (#set! name "deinit"))
((subscript_declaration) @function (#set! name "subscript"))
