; Functions and procedures, without their schema; a view, a trigger or a table isn't called.
(create_function (object_reference name: (identifier) @name)) @function
