; Functions and procedures, without their schema; a view, a trigger or a table isn't called. The grammar knows neither
; procedures nor every dialect's bodies: it keeps their heads among its errors.
(create_function (keyword_function) . (object_reference name: (identifier) @name)) @function
(ERROR (keyword_create) (keyword_function) . (object_reference name: (identifier) @name)) @function
