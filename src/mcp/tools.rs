//! F5: the tools that there are, as an agent's model reads of them.

use rmcp::model::{JsonObject, ToolAnnotations};
use serde_json::{Value, json};

use super::arguments::{MOST_PICTURES, MOST_RESULTS};

/// A tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    LocateIssue,
    IndexRepository,
    IndexStatus,
}

impl Tool {
    pub const ALL: [Tool; 3] = [Tool::LocateIssue, Tool::IndexRepository, Tool::IndexStatus];

    pub fn name(self) -> &'static str {
        match self {
            Tool::LocateIssue => "locate_issue",
            Tool::IndexRepository => "index_repository",
            Tool::IndexStatus => "index_status",
        }
    }

    pub fn named(name: &str) -> Option<Self> {
        Tool::ALL.into_iter().find(|it| it.name() == name)
    }

    fn title(self) -> &'static str {
        match self {
            Tool::LocateIssue => "Locate an issue",
            Tool::IndexRepository => "Index a repository",
            Tool::IndexStatus => "Status of indexes",
        }
    }

    fn description(self) -> &'static str {
        match self {
            Tool::LocateIssue => {
                "Rank the files and functions of a repository by how likely an issue (bug report, feature request, error message, \
                 screenshot) is about them. Call it when you know what goes wrong but not where. Returns two lists, best first: \
                 functions as `rank. path:first-last name (score)`, and files; scores only order a list. Paths are relative to the \
                 repository. Nothing is changed in it, and files that were edited are seen. A repository without an index gets one of its \
                 words first, which takes seconds; then the likeliest code is compared by an encoder, some seconds more; later calls \
                 are quick."
            }
            Tool::IndexRepository => {
                "Embed all of a repository, so that locate_issue answers in milliseconds and compares all of it, or bring its index up to \
                 date. Not needed before locate_issue. Takes from seconds to many minutes, by the repository's size; returns when done. \
                 When it is interrupted, the next call goes on with what was done. Only Sightline's own data directory is written to."
            }
            Tool::IndexStatus => {
                "Tell which repositories are indexed, whether their indexes are up to date, and how far indexing is. With `path`, of that \
                 repository alone."
            }
        }
    }

    fn annotations(self) -> ToolAnnotations {
        let annotations = ToolAnnotations::new().open_world(false).idempotent(true);
        match self {
            Tool::LocateIssue | Tool::IndexStatus => annotations.read_only(true),
            Tool::IndexRepository => annotations.read_only(false).destructive(false),
        }
    }

    fn input(self) -> Value {
        let path = |what: &str| json!({"type": "string", "description": what});
        let properties = match self {
            Tool::LocateIssue => json!({
                "path": path(REPOSITORY),
                "title": {"type": "string", "description": "The issue's title, or what goes wrong in one sentence."},
                "body": {
                    "type": "string",
                    "description": "The rest of the issue as it is, Markdown or text: steps, error messages, stack traces, names."
                },
                "images": {
                    "type": "array",
                    "items": {"type": "string"},
                    "maxItems": MOST_PICTURES,
                    "description": "Screenshots, each the path of a file on this machine, or a data URL. Their text is read and searched \
                                    with; the answer says how much was read."
                },
                "k": {
                    "type": "integer", "minimum": 1, "maximum": MOST_RESULTS,
                    "description": "Results in each list; 10 if not given."
                },
                "granularity": {
                    "type": "string", "enum": ["both", "file", "function"],
                    "description": "Which lists to return; both if not given."
                },
                "detail": {
                    "type": "string", "enum": ["short", "full"],
                    "description": "`full` adds the lines that match and the parts of each score; short if not given."
                }
            }),
            Tool::IndexRepository => json!({"path": path(REPOSITORY)}),
            Tool::IndexStatus => json!({"path": path("A repository's folder; all repositories if not given.")}),
        };
        json!({"type": "object", "properties": properties, "additionalProperties": false})
    }

    fn output(self) -> Value {
        match self {
            Tool::LocateIssue => object(
                json!({
                    "functions": list(of_hit(true)),
                    "files": list(of_hit(false)),
                    "stale": {"type": "boolean", "description": "Whether files have changed that the answer does not know of."},
                    "notes": list(json!({"type": "string"})),
                }),
                &["functions", "files", "stale", "notes"],
            ),
            Tool::IndexRepository => object(
                json!({
                    "path": TEXT(), "seconds": NUMBER(), "files": COUNT(), "functions": COUNT(),
                    "windows": COUNT(), "vectors": COUNT(), "embedded": COUNT(), "skipped": COUNT(),
                }),
                &["path", "seconds", "files", "functions", "windows", "vectors", "embedded", "skipped"],
            ),
            Tool::IndexStatus => object(
                json!({
                    "repositories": list(object(
                        json!({
                            "path": TEXT(), "status": {"type": "string", "enum": ["building", "ready", "partial", "failed"]},
                            "stale": {"type": "boolean"}, "files": COUNT(), "functions": COUNT(), "windows": COUNT(),
                            "vectors": COUNT(), "commit": TEXT(), "progress": TEXT(), "problem": TEXT(),
                        }),
                        &["path", "status", "stale", "files", "functions", "windows", "vectors"],
                    )),
                    "more": COUNT(),
                }),
                &["repositories", "more"],
            ),
        }
    }
}

const REPOSITORY: &str = "The repository's folder, absolute or relative to the folder that this server was started in; that folder if not given.";

const TEXT: fn() -> Value = || json!({"type": "string"});
const COUNT: fn() -> Value = || json!({"type": "integer"});
const NUMBER: fn() -> Value = || json!({"type": "number"});

fn list(items: Value) -> Value {
    json!({"type": "array", "items": items})
}

fn object(properties: Value, required: &[&str]) -> Value {
    json!({"type": "object", "properties": properties, "required": required})
}

fn of_hit(is_function: bool) -> Value {
    let line = object(json!({"line": COUNT(), "text": TEXT()}), &["line", "text"]);
    let parts = ["lexical", "mention", "context", "dense"];
    let scores: JsonObject = parts.iter().map(|it| ((*it).to_owned(), NUMBER())).collect();
    let mut properties =
        json!({"path": TEXT(), "score": NUMBER(), "lines": list(line), "scores": object(scores.into(), &parts)});
    let mut required = vec!["path", "score"];
    if is_function {
        for (name, schema) in [("function", TEXT()), ("start_line", COUNT()), ("end_line", COUNT())] {
            properties[name] = schema;
            required.push(name);
        }
    }
    object(properties, &required)
}

/// A tool as the protocol has it.
pub fn described(tool: Tool) -> rmcp::model::Tool {
    let schema = |value: Value| match value {
        Value::Object(schema) => schema,
        _ => JsonObject::new(),
    };
    rmcp::model::Tool::new(tool.name(), tool.description(), schema(tool.input()))
        .with_title(tool.title())
        .with_raw_output_schema(schema(tool.output()).into())
        .with_annotations(tool.annotations())
}

/// What is said of a tool that there is not.
pub fn unknown(name: &str) -> String {
    let name: String = name.chars().filter(|it| !it.is_control()).take(64).collect();
    let known: Vec<&str> = Tool::ALL.iter().map(|it| it.name()).collect();
    format!("there is no tool `{name}`: call one of {}", known.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::arguments::{LocateArguments, PathArguments, read};

    /// Whether a tool takes an argument.
    fn takes(tool: Tool, name: &str, value: &Value) -> Result<(), String> {
        let arguments = JsonObject::from_iter([(name.to_owned(), value.clone())]);
        let read = match tool {
            Tool::LocateIssue => read::<LocateArguments>(tool, arguments).map(drop),
            Tool::IndexRepository | Tool::IndexStatus => read::<PathArguments>(tool, arguments).map(drop),
        };
        read.map_err(|error| error.to_string())
    }

    fn properties(tool: Tool) -> JsonObject {
        tool.input()["properties"].as_object().expect("an object").clone()
    }

    #[test]
    fn a_tool_takes_what_its_schema_says() {
        for tool in Tool::ALL {
            for (name, schema) in properties(tool) {
                let values = match (schema["enum"].as_array(), schema["type"].as_str().expect("a type")) {
                    (Some(values), _) => values.clone(),
                    (None, "string") => vec![json!("a")],
                    (None, "integer") => vec![schema["minimum"].clone(), schema["maximum"].clone()],
                    (None, "array") => vec![json!(["a"])],
                    (None, other) => panic!("{name} is a {other}"),
                };
                for value in values {
                    takes(tool, &name, &value).unwrap_or_else(|error| panic!("{name} = {value}: {error}"));
                }
            }
        }
    }

    #[test]
    fn a_schema_names_all_that_a_tool_takes() {
        for tool in Tool::ALL {
            let error = takes(tool, "pth", &json!("a")).expect_err("unknown");
            assert!(error.contains("unknown field `pth`") && error.contains(tool.name()), "{error}");
            let said: Vec<&str> = error.split('`').skip(3).step_by(2).filter(|it| !it.is_empty()).collect();
            let mut named: Vec<String> = properties(tool).into_iter().map(|it| it.0).collect();
            named.sort_unstable();
            let mut said: Vec<&str> = said;
            said.sort_unstable();
            assert_eq!(said, named, "{error}");
        }
    }

    #[test]
    fn agents_get_little_to_read() {
        let tools = Tool::ALL.map(described);
        let length = serde_json::to_string(&tools).expect("JSON").len();
        assert!(length < 6500, "{length} bytes of tools are in each of an agent's requests");
        let hints = tools.map(|it| it.annotations.and_then(|it| it.read_only_hint));
        assert_eq!(hints, [Some(true), Some(false), Some(true)]);
    }

    #[test]
    fn a_tool_that_there_is_not_leads_to_those_that_there_are() {
        assert_eq!(Tool::named("index_status"), Some(Tool::IndexStatus));
        assert_eq!(Tool::named("locate"), None);
        assert!(unknown("lo\ncate").contains("`locate`: call one of locate_issue, index_repository, index_status"));
    }
}
