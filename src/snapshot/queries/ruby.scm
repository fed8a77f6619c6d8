; Modules are kept; `class << self` lends no name. `A = Struct.new do` is a class.
(module name: (_) @name) @container
(class name: (_) @name) @container
(assignment
  left: [(constant) (scope_resolution)] @name
  right: (call
    receiver: (constant) @factory
    method: (identifier) @new
    block: (_))
  (#any-of? @factory "Class" "Data" "Module" "Struct")
  (#any-of? @new "new" "define")) @container
(method name: (_) @name) @function
(singleton_method name: (_) @name) @function
