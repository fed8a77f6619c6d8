; A function takes the name that it is assigned to. The lists and class generators whose members are functions
; enclose them; an argument of any other call (`lapply(x, FUN = function(i) i)`) is no definition.
(binary_operator
  lhs: [(identifier) @name (extract_operator) @name (string content: (_) @name)]
  operator: ["<-" "<<-" "=" ":="]
  rhs: (function_definition)) @function
(binary_operator
  lhs: [(identifier) @name (extract_operator) @name]
  operator: ["<-" "<<-" "="]
  rhs: (call function: [
    (identifier) @call
    (namespace_operator rhs: (identifier) @call)
  ])
  (#any-of? @call "list" "R6Class" "setRefClass" "ggproto" "proto")) @container
((call
  function: [(identifier) @call (namespace_operator rhs: (identifier) @call)]
  arguments: (arguments
    argument: (argument
      name: [(identifier) @name (string content: (_) @name)]
      value: (function_definition)) @function))
  (#any-of? @call "list" "ggproto" "proto"))
((call
  function: [(identifier) @call (namespace_operator rhs: (identifier) @call)]
  arguments: (arguments
    . argument: (argument value: (string content: (_) @name))
    argument: (argument value: (function_definition)))) @function
  (#any-of? @call "setGeneric" "setMethod" "setReplaceMethod"))
